//! Route of submits through the epochs of a type, oldest first. A sealed shard that does not know
//! an id never will, so it is correct to go on to the next one, by whatever layout.

use std::collections::HashMap;
use std::sync::Arc;

use delayq_core::job::NewTask;
use delayq_core::store::SubmitOutcome;
use delayq_core::{Error, Result, TaskType};
use futures_util::future::join_all;

use super::Shards;
use super::shards::MAX_TRIES;
use crate::scripts::submit::Prepared;
use crate::shard::Shard;
use crate::shard::batch::Landing;

/// A task on its way to a shard, and its index among all tasks.
struct Routed {
    index: usize,
    shard: Arc<Shard>,
    task: Prepared,
}

/// The tasks of one shard.
struct ShardTasks {
    shard: Arc<Shard>,
    indexes: Vec<usize>,
    tasks: Vec<Prepared>,
}

/// The submits of one type.
pub(crate) struct Route<'a> {
    shards: &'a Shards,
    task_type: &'a TaskType,
    /// One for each task, in order.
    pub(crate) outcomes: Vec<Result<SubmitOutcome>>,
    /// A shard was completely empty before: the type may be missing from the list.
    pub(crate) is_new: bool,
    /// A shard packs far tasks once the type is marked for that.
    pub(crate) wants_to_pack: bool,
}

/// Submits tasks of one type.
pub(crate) async fn submit<'a>(
    shards: &'a Shards,
    task_type: &'a TaskType,
    tasks: Vec<&NewTask>,
) -> Route<'a> {
    let no_answer = |_: &&NewTask| Err(Error::Closed("the Redis store"));
    let mut route = Route {
        shards,
        task_type,
        outcomes: tasks.iter().map(no_answer).collect(),
        is_new: false,
        wants_to_pack: false,
    };
    let map = shards.known(task_type);
    let mut rest = Vec::with_capacity(tasks.len());
    for (index, task) in tasks.into_iter().enumerate() {
        if let Some(shard) = map.first(&task.id) {
            let (shard, task) = (Arc::clone(shard), Prepared::new(task));
            rest.push(Routed { index, shard, task });
        }
    }
    for _ in 0..2 * MAX_TRIES {
        rest = route.send(rest).await;
        if rest.is_empty() {
            return route;
        }
        if let Err(error) = route.move_on(&mut rest).await {
            route.fail(&rest, &error);
            return route;
        }
    }
    route.fail(&rest, &shards.unsettled(task_type));
    route
}

impl Route<'_> {
    fn put(&mut self, index: usize, outcome: Result<SubmitOutcome>) {
        if let Some(slot) = self.outcomes.get_mut(index) {
            *slot = outcome;
        }
    }

    fn fail(&mut self, tasks: &[Routed], error: &Error) {
        for routed in tasks {
            self.put(routed.index, Err(error.clone()));
        }
    }

    /// Sends tasks to their shards concurrently. Returns those whose shard is sealed.
    async fn send(&mut self, tasks: Vec<Routed>) -> Vec<Routed> {
        let mut by_shard: HashMap<String, ShardTasks> = HashMap::new();
        for Routed { index, shard, task } in tasks {
            let own = by_shard.entry(shard.keys.stem.clone());
            let own = own.or_insert_with(|| ShardTasks {
                shard,
                indexes: Vec::new(),
                tasks: Vec::new(),
            });
            own.indexes.push(index);
            own.tasks.push(task);
        }
        let mut submits = by_shard.into_values().map(async |mut own: ShardTasks| {
            let tasks = std::mem::take(&mut own.tasks);
            let landings = own.shard.submit(tasks).await;
            (own, landings)
        });
        let landed = match (submits.next(), submits.len()) {
            // The usual case needs no join.
            (Some(only), 0) => vec![only.await],
            (first, _) => join_all(first.into_iter().chain(submits)).await,
        };
        let mut sealed = Vec::new();
        for (own, landings) in landed {
            for (index, landing) in own.indexes.into_iter().zip(landings) {
                let outcome = match landing {
                    Ok(Landing::Sealed(task)) => {
                        let shard = Arc::clone(&own.shard);
                        sealed.push(Routed { index, shard, task });
                        continue;
                    }
                    Ok(Landing::New(outcome)) => {
                        self.is_new = true;
                        Ok(outcome)
                    }
                    Ok(Landing::Packable(outcome)) => {
                        self.wants_to_pack = true;
                        Ok(outcome)
                    }
                    Ok(Landing::Here(outcome)) => Ok(outcome),
                    Err(error) => Err(error),
                };
                self.put(index, outcome);
            }
        }
        sealed
    }

    /// Gives each task its next shard. If no newer one is known, the layout is read again.
    async fn move_on(&self, sealed: &mut [Routed]) -> Result<()> {
        let map = self.shards.known(self.task_type);
        let knows_next = |routed: &Routed| map.after(&routed.shard, &routed.task.id).is_some();
        if !sealed.iter().all(knows_next) {
            self.shards.refresh(self.task_type, &map).await?;
        }
        let map = self.shards.known(self.task_type);
        for routed in sealed {
            let after = map.after(&routed.shard, &routed.task.id);
            if let Some(next) = after.or_else(|| map.first(&routed.task.id)) {
                routed.shard = Arc::clone(next);
            }
        }
        Ok(())
    }
}
