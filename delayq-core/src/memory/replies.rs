//! The replies of a memory store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use async_trait::async_trait;

use super::MemoryStore;
use crate::error::Result;
use crate::name::{TaskId, TaskType};
use crate::replies::Replies;
use crate::reply::{KeptReply, Reply};
use crate::task::Lock;
use crate::time::Timestamp;

type Key = (TaskType, TaskId);

/// The kept replies, and the ends of their retention in order.
#[derive(Debug, Default)]
pub(super) struct Drawer {
    kept: BTreeMap<Key, (KeptReply, Timestamp)>,
    ends: BTreeSet<(Timestamp, TaskType, TaskId)>,
}

impl Drawer {
    /// Forgets expired replies.
    fn forget(&mut self, now: Timestamp) {
        while self.ends.first().is_some_and(|(end, ..)| *end <= now) {
            if let Some((_, task_type, id)) = self.ends.pop_first() {
                self.kept.remove(&(task_type, id));
            }
        }
    }

    fn keep(&mut self, key: Key, reply: KeptReply, until: Timestamp) -> bool {
        if let Some((present, end)) = self.kept.get(&key) {
            if present.fence > reply.fence {
                return false;
            }
            self.ends.remove(&(*end, key.0.clone(), key.1.clone()));
        }
        self.ends.insert((until, key.0.clone(), key.1.clone()));
        self.kept.insert(key, (reply, until));
        true
    }
}

fn open<R>(store: &MemoryStore, work: impl FnOnce(&mut Drawer, Timestamp) -> R) -> Result<R> {
    store.refuse_closed()?;
    let mut drawer = store.drawer.lock().unwrap_or_else(PoisonError::into_inner);
    let now = store.clock.now();
    drawer.forget(now);
    Ok(work(&mut drawer, now))
}

#[async_trait]
impl Replies for MemoryStore {
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        reply.check()?;
        let key = (task_type.clone(), lock.id.clone());
        open(self, |drawer, now| {
            let kept = KeptReply {
                fence: lock.fence,
                at: now,
                content_type: reply.content_type.clone(),
                body: reply.body.clone(),
            };
            drawer.keep(key, kept, now.plus(reply.retention))
        })
    }

    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        let key = (task_type.clone(), id.clone());
        open(self, |drawer, _| {
            drawer.kept.get(&key).map(|(reply, _)| reply.clone())
        })
    }
}
