//! Claims whose answers were lost: the next claim of the partition names them, and the script gives back what they
//! took. Otherwise their tasks would wait for the end of locks of which nobody knows, and have lost an attempt.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::keys::Partition;

/// Lost claims of a partition that are named; of more, the elder ones keep their locks until these end.
const MAX_LOST: usize = 16;

/// The claims of one store that have no answer, or may have had one that nobody saw.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// By what the keys of their partition have in common.
    lost: HashMap<String, Vec<Lost>>,
}

/// A claim that may have taken tasks.
#[derive(Debug)]
struct Lost {
    number: u64,
    since: Instant,
    /// How long its locks last, if it took any.
    lock_for: Duration,
}

/// A claim on its way. Dropped without an answer, it counts as lost: so does one that its caller gave up.
#[derive(Debug)]
pub(super) struct OpenClaim<'a> {
    unanswered: &'a Unanswered,
    part: &'a Partition,
    pub(super) number: u64,
    /// The lost ones before it, each between blanks; empty without any.
    pub(super) lost: String,
    lock_for: Duration,
    has_answer: bool,
}

impl Unanswered {
    /// A claim of up to `limit` tasks. One of none takes no locks that could be lost.
    pub(super) fn begin<'a>(
        &'a self,
        part: &'a Partition,
        limit: usize,
        lock_for: Duration,
    ) -> OpenClaim<'a> {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        let mut lost = String::new();
        if let Some(claims) = state.lost.get_mut(&part.stem) {
            // An answer to a later claim is no sign that an earlier one will not yet arrive at the server.
            claims.retain(|claim| claim.since.elapsed() < claim.lock_for);
            for claim in claims {
                lost.extend([" ", &claim.number.to_string(), " "]);
            }
        }
        if lost.is_empty() {
            state.lost.remove(&part.stem);
        }
        OpenClaim {
            unanswered: self,
            part,
            number,
            lost,
            lock_for,
            has_answer: limit == 0,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // No panic leaves the state half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenClaim<'_> {
    /// It was answered, or has surely done nothing.
    pub(super) fn answered(mut self) {
        self.has_answer = true;
    }
}

impl Drop for OpenClaim<'_> {
    fn drop(&mut self) {
        if self.has_answer {
            return;
        }
        let mut state = self.unanswered.state();
        let lost = state.lost.entry(self.part.stem.clone()).or_default();
        if lost.len() == MAX_LOST {
            lost.remove(0);
        }
        lost.push(Lost {
            number: self.number,
            since: Instant::now(),
            lock_for: self.lock_for,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keyspace;
    use super::*;
    use crate::name::{Namespace, TaskType};

    fn part(name: &str) -> Partition {
        let keys = Keyspace::new(Namespace::default());
        keys.whole(&TaskType::new(name).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn lost_claims_are_named_while_their_locks_last() {
        let (unanswered, a, b) = (Unanswered::default(), part("a"), part("b"));
        let lock = Duration::from_secs(10);
        unanswered.begin(&a, 1, lock).answered();
        drop(unanswered.begin(&a, 1, lock));
        tokio::time::advance(lock / 2).await;
        drop(unanswered.begin(&a, 1, lock));
        assert_eq!(unanswered.begin(&b, 1, lock).lost, "");
        let next = unanswered.begin(&a, 1, lock);
        assert_eq!((next.number, next.lost.as_str()), (5, " 2  3 "));
        next.answered();
        tokio::time::advance(lock / 2).await;
        let next = unanswered.begin(&a, 1, lock);
        assert_eq!(next.lost, " 3 ");
        next.answered();
        tokio::time::advance(lock / 2).await;
        assert_eq!(unanswered.begin(&a, 1, lock).lost, "");
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_named() {
        let (unanswered, a) = (Unanswered::default(), part("a"));
        for n in 0..200 {
            // Those that take nothing push no other one out.
            let limit = n % 2;
            drop(unanswered.begin(&a, limit, Duration::from_secs(10)));
        }
        let next = unanswered.begin(&a, 1, Duration::from_secs(10));
        assert_eq!(next.lost.split_whitespace().count(), MAX_LOST);
        assert!(
            next.lost.starts_with(" 170 ") && next.lost.ends_with(" 200 "),
            "{}",
            next.lost
        );
    }
}
