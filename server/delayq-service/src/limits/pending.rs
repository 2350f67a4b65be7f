//! Counts of unfinished tasks, for a namespace and for the types of a token.

use std::collections::HashMap;
use std::time::Duration;

use delayq_plugin::{Error, TaskSubmitService, TaskType};
use futures_util::future::try_join_all;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::problem::Problem;

/// How long a count stays valid.
const FRESH: Duration = Duration::from_secs(1);
/// Counting takes at most one part in this many of all time.
const SHARE: u32 = 20;
/// The number of types counted concurrently.
const AT_A_TIME: usize = 16;

/// The set of tasks that a limit applies to.
#[derive(Clone, Copy)]
pub(crate) enum Bounded<'a> {
    /// All tasks of the namespace.
    Namespace,
    /// The tasks of the types that a token covers.
    Token {
        id: &'a str,
        covers: &'a (dyn Fn(&TaskType) -> bool + Sync),
    },
}

impl Bounded<'_> {
    fn key(self) -> Option<String> {
        match self {
            Self::Namespace => None,
            Self::Token { id, .. } => Some(id.to_owned()),
        }
    }

    fn covers(self, task_type: &TaskType) -> bool {
        match self {
            Self::Namespace => true,
            Self::Token { covers, .. } => covers(task_type),
        }
    }
}

/// Counts of unfinished tasks: a count from the store now and then, plus the tasks created since.
/// One count for the namespace (`None`), and one for each token with its own limit, by its id.
#[derive(Debug, Default)]
pub struct Pending(Mutex<HashMap<Option<String>, PendingCount>>);

#[derive(Clone, Copy, Debug)]
struct PendingCount {
    until: Instant,
    tasks: u64,
}

impl Pending {
    /// Makes room for `new` tasks, or refuses them if the total would exceed `max`.
    pub(crate) async fn admit(
        &self,
        tasks: &TaskSubmitService,
        bounded: Bounded<'_>,
        new: u64,
        max: u64,
    ) -> Result<(), Problem> {
        let mut counts = self.0.lock().await;
        let key = bounded.key();
        let mut count = match counts.get(&key) {
            Some(fresh) if Instant::now() < fresh.until => *fresh,
            _ => counted(tasks, bounded).await?,
        };
        let (present, with_new) = (count.tasks, count.tasks.saturating_add(new));
        // A namespace may have more than it is allowed, and nothing new needs no room.
        let is_admitted = new == 0 || with_new <= max;
        if is_admitted {
            count.tasks = with_new;
        }
        counts.insert(key, count);
        if is_admitted {
            return Ok(());
        }
        let whose = "tasks that are scheduled or running, at most";
        Err(match bounded {
            Bounded::Namespace => {
                let text = format!("the namespace has {present} {whose} {max} are allowed");
                Problem::namespace_full(text)
            }
            Bounded::Token { .. } => {
                let text = format!(
                    "the types of this token have {present} {whose} {max} are allowed to it"
                );
                Problem::token_full(text)
            }
        })
    }
}

async fn counted(tasks: &TaskSubmitService, bounded: Bounded<'_>) -> Result<PendingCount, Error> {
    let started = Instant::now();
    let mut types = tasks.types().await?;
    types.retain(|task_type| bounded.covers(task_type));
    let mut sum = 0_u64;
    for some in types.chunks(AT_A_TIME) {
        let stats = try_join_all(some.iter().map(|one| tasks.stats(one.as_str()))).await?;
        for of_type in stats {
            sum = sum.saturating_add(of_type.scheduled.saturating_add(of_type.running));
        }
    }
    let now = Instant::now();
    let pause = FRESH.max(now.saturating_duration_since(started) * SHARE);
    Ok(PendingCount {
        until: now + pause,
        tasks: sum,
    })
}
