//! The way in: submits made at the same time share round trips, without waiting for one another.
//!
//! A task on the store's own thread, the [`Desk`], takes whatever is queued, groups it by type into script calls of
//! up to [`MAX_BATCH`] tasks, and sends them in one go: a flight. While a few to a server are in the air, more gather.
//! Each node of a cluster has flights of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::client::Client;
use super::desk::Desk;
use super::flight::{Flight, Landing, Prepared};
use super::road::Road;
use super::room::Watermark;
use super::scope::Scope;
use crate::error::{Error, Result};
use crate::store::MAX_BATCH;

/// Submits that wait to be sent; beyond it their callers wait.
pub(super) const QUEUE: usize = 1_024;
/// Tasks of one flight: enough to keep the server busy while the next one is built.
pub(super) const MAX_FLIGHT: usize = 8 * MAX_BATCH;

/// Tasks submitted by one call that go to one server.
pub(super) struct Job {
    /// The slot that says which one.
    pub(super) slot: u16,
    pub(super) tasks: Vec<Prepared>,
    pub(super) passenger: Passenger,
}

/// Who waits for the outcome, and how long.
pub(super) struct Passenger {
    reply: Option<oneshot::Sender<Vec<Result<Landing>>>>,
    pub(super) deadline: Instant,
    pub(super) tasks: usize,
}

impl Passenger {
    pub(super) fn answer(&mut self, outcomes: Vec<Result<Landing>>) {
        if let Some(reply) = self.reply.take() {
            // A caller that went away wants no answer.
            let _ = reply.send(outcomes);
        }
    }

    pub(super) fn fail(&mut self, error: &Error) {
        self.answer(failed(error, self.tasks));
    }
}

fn failed(error: &Error, tasks: usize) -> Vec<Result<Landing>> {
    (0..tasks).map(|_| Err(error.clone())).collect()
}

/// The sending end of the queue.
#[derive(Clone, Debug)]
pub(super) struct Submitter {
    queue: mpsc::Sender<Job>,
    scope: Arc<Scope>,
    is_cluster: bool,
    watermark: Option<Watermark>,
}

impl Submitter {
    /// Starts the task that sends; it ends with the client.
    pub(super) fn start(client: &Client, scope: &Arc<Scope>, watermark: Option<Watermark>) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let desk = Desk::new(client.route(), scope);
        client.spawn(desk.run(jobs));
        Self {
            queue,
            scope: Arc::clone(scope),
            is_cluster: client.route().is_cluster(),
            watermark,
        }
    }

    /// Submits tasks, in their order; one outcome each.
    pub(super) async fn submit(&self, tasks: Vec<Prepared>) -> Vec<Result<Landing>> {
        if !self.is_cluster {
            return self.submit_to(0, tasks).await;
        }
        // The usual case, one task, needs no task of its own on the caller's runtime, which may wake another thread.
        let slot = tasks.first().map_or(0, Prepared::slot);
        if tasks.iter().all(|task| task.slot() == slot) {
            return self.submit_to(slot, tasks).await;
        }
        let mut by_slot: HashMap<u16, (Vec<usize>, Vec<Prepared>)> = HashMap::new();
        let count = tasks.len();
        for (place, task) in tasks.into_iter().enumerate() {
            let (places, tasks) = by_slot.entry(task.slot()).or_default();
            places.push(place);
            tasks.push(task);
        }
        let mut groups = JoinSet::new();
        for (slot, (places, tasks)) in by_slot {
            let submitter = self.clone();
            groups.spawn(async move { (places, submitter.submit_to(slot, tasks).await) });
        }
        let mut outcomes = failed(&Error::Closed("the Redis store"), count);
        while let Some(group) = groups.join_next().await {
            let (places, own) = group.unwrap_or_default();
            for (place, outcome) in places.into_iter().zip(own) {
                if let Some(slot) = outcomes.get_mut(place) {
                    *slot = outcome;
                }
            }
        }
        outcomes
    }

    /// Submits tasks that go to one server.
    async fn submit_to(&self, slot: u16, tasks: Vec<Prepared>) -> Vec<Result<Landing>> {
        let count = tasks.len();
        let deadline = Instant::now() + self.scope.options.call_timeout;
        if let Some(watermark) = &self.watermark
            && let Err(full) = watermark.check(slot, deadline).await
        {
            return failed(&full, count);
        }
        let mut answers = Vec::with_capacity(count.div_ceil(MAX_FLIGHT));
        let mut tasks = tasks.into_iter();
        while tasks.len() > 0 {
            let (reply, answer) = oneshot::channel();
            let tasks: Vec<Prepared> = tasks.by_ref().take(MAX_FLIGHT).collect();
            let passenger = Passenger {
                reply: Some(reply),
                deadline,
                tasks: tasks.len(),
            };
            answers.push((answer, tasks.len()));
            let job = Job {
                slot,
                tasks,
                passenger,
            };
            // A closed queue drops the job, and with it the reply's sender.
            let _ = self.queue.send(job).await;
        }
        let mut outcomes = Vec::with_capacity(count);
        for (answer, count) in answers {
            let closed = || failed(&Error::Closed("the Redis store"), count);
            outcomes.extend(answer.await.unwrap_or_else(|_| closed()));
        }
        outcomes
    }
}

/// Those on one flight, in the order of their tasks and of their deadlines. One that was answered early keeps
/// its seat, so that the others get their own outcomes.
struct Passengers {
    all: Vec<Passenger>,
    /// How many have been answered before the flight landed.
    late: usize,
}

impl Passengers {
    fn next_deadline(&self) -> Option<Instant> {
        Some(self.all.get(self.late)?.deadline)
    }

    fn fail_next(&mut self, error: &Error) {
        if let Some(passenger) = self.all.get_mut(self.late) {
            passenger.fail(error);
            self.late += 1;
        }
    }

    fn land(&mut self, outcomes: Vec<Result<Landing>>) {
        let mut outcomes = outcomes.into_iter();
        for passenger in &mut self.all {
            let own = outcomes.by_ref().take(passenger.tasks).collect();
            passenger.answer(own);
        }
    }
}

/// Sends the tasks of `jobs` and answers each one by its deadline at the latest.
pub(super) async fn fly(jobs: Vec<Job>, road: Road, scope: Arc<Scope>) {
    let started = Instant::now();
    let seated = jobs.into_iter().map(|job| (job.tasks, job.passenger));
    let (tasks, all) = seated.unzip();
    let mut passengers = Passengers { all, late: 0 };
    let mut flight = std::pin::pin!(Flight::new(tasks, &scope).send(&road, &scope));
    while let Some(deadline) = passengers.next_deadline() {
        tokio::select! {
            outcomes = &mut flight => {
                passengers.land(outcomes);
                return;
            }
            () = sleep_until(deadline.into()) => {
                passengers.fail_next(&road.live.no_answer(scope.options.call_timeout));
            }
        }
    }
    road.live
        .suspect(started.elapsed(), scope.options.call_timeout);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::SubmitOutcome;
    use crate::time::Timestamp;

    type Answer = oneshot::Receiver<Vec<Result<Landing>>>;

    fn passenger(tasks: usize) -> (Passenger, Answer) {
        let (reply, answer) = oneshot::channel();
        let passenger = Passenger {
            reply: Some(reply),
            deadline: Instant::now(),
            tasks,
        };
        (passenger, answer)
    }

    fn accepted(due: i64) -> Landing {
        Landing::Here(SubmitOutcome::Accepted {
            due_at: Timestamp::from_millis(due),
            replaced: false,
        })
    }

    /// When the tasks are due that were answered as accepted.
    fn dues(answer: &mut Answer) -> Vec<Result<i64>> {
        let outcomes = answer.try_recv().unwrap();
        let due = outcomes.into_iter().map(|outcome| match outcome? {
            Landing::Here(SubmitOutcome::Accepted { due_at, .. }) => Ok(due_at.as_millis()),
            _ => panic!("accepted or failed"),
        });
        due.collect()
    }

    #[test]
    fn who_was_answered_too_late_does_not_shift_the_outcomes_of_the_others() {
        let ((first, mut to_first), (second, mut to_second)) = (passenger(2), passenger(1));
        let all = vec![first, second];
        let mut passengers = Passengers { all, late: 0 };
        passengers.fail_next(&Error::Closed("a test"));
        passengers.land([1, 2, 3].map(|due| Ok(accepted(due))).into());
        assert_eq!(dues(&mut to_second), [Ok(3)]);
        let failed = Err(Error::Closed("a test"));
        assert_eq!(dues(&mut to_first), [failed.clone(), failed]);
        assert!(
            passengers.next_deadline().is_some(),
            "the second was not late"
        );
    }

    #[test]
    fn each_is_told_by_its_own_deadline() {
        let ((mut first, mut to_first), (mut second, mut to_second)) = (passenger(1), passenger(1));
        let at = Instant::now();
        (first.deadline, second.deadline) = (at, at + Duration::from_secs(1));
        let due = second.deadline;
        let all = vec![first, second];
        let mut passengers = Passengers { all, late: 0 };
        let late = Error::Closed("a test");
        assert_eq!(passengers.next_deadline(), Some(at));
        passengers.fail_next(&late);
        assert_eq!(dues(&mut to_first), [Err(late.clone())]);
        assert_eq!(passengers.next_deadline(), Some(due));
        passengers.fail_next(&late);
        assert_eq!(dues(&mut to_second), [Err(late)]);
        assert_eq!(passengers.next_deadline(), None);
    }
}
