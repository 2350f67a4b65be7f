//! The way in: submits made at the same time share round trips, without waiting for one another.
//!
//! A task on the store's own thread takes whatever is queued, groups it by type into script calls of up to
//! [`MAX_BATCH`] tasks, and sends them in one go: a flight. While [`MAX_FLIGHTS`] are in the air, more gather.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::client::{Client, Link, Live};
use super::flight::{Flight, Prepared};
use super::scope::Scope;
use crate::error::{Error, Result};
use crate::store::{MAX_BATCH, SubmitOutcome};

/// Submits that wait to be sent; beyond it their callers wait.
const QUEUE: usize = 1_024;
/// Flights in the air: enough to keep the server busy while one is built and one is on its way back, and few
/// enough that tasks gather. Between 2 and 6 it makes no difference on one machine.
const MAX_FLIGHTS: usize = 4;
/// Tasks of one flight: enough to keep the server busy while the next one is built.
pub(super) const MAX_FLIGHT: usize = 8 * MAX_BATCH;

/// Tasks submitted by one call.
pub(super) struct Job {
    pub(super) tasks: Vec<Prepared>,
    pub(super) passenger: Passenger,
}

/// Who waits for the outcome, and how long.
pub(super) struct Passenger {
    reply: Option<oneshot::Sender<Vec<Result<SubmitOutcome>>>>,
    deadline: Instant,
    pub(super) tasks: usize,
}

impl Passenger {
    pub(super) fn answer(&mut self, outcomes: Vec<Result<SubmitOutcome>>) {
        if let Some(reply) = self.reply.take() {
            // A caller that went away wants no answer.
            let _ = reply.send(outcomes);
        }
    }

    fn fail(&mut self, error: &Error) {
        self.answer(vec![Err(error.clone()); self.tasks]);
    }
}

/// The sending end of the queue.
#[derive(Clone, Debug)]
pub(super) struct Submitter {
    queue: mpsc::Sender<Job>,
    scope: Arc<Scope>,
}

impl Submitter {
    /// Starts the task that sends; it ends with the client.
    pub(super) fn start(client: &Client, scope: &Arc<Scope>) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let desk = Desk {
            waiting: VecDeque::new(),
            flights: JoinSet::new(),
            link: Arc::clone(client.main()),
            scope: Arc::clone(scope),
        };
        client.spawn(desk.run(jobs));
        Self {
            queue,
            scope: Arc::clone(scope),
        }
    }

    /// Submits tasks, in their order; one outcome each.
    pub(super) async fn submit(&self, tasks: Vec<Prepared>) -> Vec<Result<SubmitOutcome>> {
        let count = tasks.len();
        let deadline = Instant::now() + self.scope.options.call_timeout;
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
            // A closed queue drops the job, and with it the reply's sender.
            let _ = self.queue.send(Job { tasks, passenger }).await;
        }
        let mut outcomes = Vec::with_capacity(count);
        for (answer, count) in answers {
            let closed = || vec![Err(Error::Closed("the Redis store")); count];
            outcomes.extend(answer.await.unwrap_or_else(|_| closed()));
        }
        outcomes
    }
}

/// Where submits wait for their flight.
struct Desk {
    waiting: VecDeque<Job>,
    flights: JoinSet<()>,
    link: Arc<Link>,
    scope: Arc<Scope>,
}

impl Desk {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        loop {
            let has_room = self.waiting.len() < QUEUE;
            let oldest = self.waiting.front().map(|job| job.passenger.deadline);
            let is_down = self.link.live().is_none();
            tokio::select! {
                job = jobs.recv(), if has_room => match job {
                    Some(job) => self.waiting.push_back(job),
                    // The store is gone, and with it everybody who waits.
                    None => return,
                },
                Some(_) = self.flights.join_next() => {}
                () = self.link.up(), if is_down && oldest.is_some() => {}
                () = sleep_until(oldest.unwrap_or_else(Instant::now).into()), if oldest.is_some() => {}
            }
            while self.waiting.len() < QUEUE
                && let Ok(job) = jobs.try_recv()
            {
                self.waiting.push_back(job);
            }
            self.give_up_late();
            self.send_off();
        }
    }

    /// Answers those whose time is over before they were sent. Deadlines come in the order of the queue.
    fn give_up_late(&mut self) {
        let now = Instant::now();
        while self
            .waiting
            .front()
            .is_some_and(|job| job.passenger.deadline <= now)
        {
            if let Some(mut job) = self.waiting.pop_front() {
                job.passenger.fail(&self.link.why_not_sent());
            }
        }
    }

    fn send_off(&mut self) {
        while self.flights.len() < MAX_FLIGHTS
            && !self.waiting.is_empty()
            && let Some(live) = self.link.live()
        {
            let mut jobs = Vec::new();
            let mut tasks = 0;
            while tasks < MAX_FLIGHT
                && let Some(job) = self.waiting.pop_front()
            {
                tasks += job.tasks.len();
                jobs.push(job);
            }
            self.flights.spawn(fly(jobs, live, Arc::clone(&self.scope)));
        }
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

    fn land(&mut self, outcomes: Vec<Result<SubmitOutcome>>) {
        let mut outcomes = outcomes.into_iter();
        for passenger in &mut self.all {
            let own = outcomes.by_ref().take(passenger.tasks).collect();
            passenger.answer(own);
        }
    }
}

/// Sends the tasks of `jobs` and answers each one by its deadline at the latest.
async fn fly(jobs: Vec<Job>, live: Live, scope: Arc<Scope>) {
    let started = Instant::now();
    let seated = jobs.into_iter().map(|job| (job.tasks, job.passenger));
    let (tasks, all) = seated.unzip();
    let mut passengers = Passengers { all, late: 0 };
    let mut flight = std::pin::pin!(Flight::new(tasks, &scope).send(&live, &scope));
    while let Some(deadline) = passengers.next_deadline() {
        tokio::select! {
            outcomes = &mut flight => {
                passengers.land(outcomes);
                return;
            }
            () = sleep_until(deadline.into()) => {
                passengers.fail_next(&live.no_answer(scope.options.call_timeout));
            }
        }
    }
    live.suspect(started.elapsed(), scope.options.call_timeout);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    type Answer = oneshot::Receiver<Vec<Result<SubmitOutcome>>>;

    fn passenger(tasks: usize) -> (Passenger, Answer) {
        let (reply, answer) = oneshot::channel();
        let passenger = Passenger {
            reply: Some(reply),
            deadline: Instant::now(),
            tasks,
        };
        (passenger, answer)
    }

    fn accepted(due: i64) -> SubmitOutcome {
        SubmitOutcome::Accepted {
            due_at: Timestamp::from_millis(due),
            replaced: false,
        }
    }

    #[test]
    fn who_was_answered_too_late_does_not_shift_the_outcomes_of_the_others() {
        let ((first, mut to_first), (second, mut to_second)) = (passenger(2), passenger(1));
        let all = vec![first, second];
        let mut passengers = Passengers { all, late: 0 };
        passengers.fail_next(&Error::Closed("a test"));
        passengers.land([1, 2, 3].map(|due| Ok(accepted(due))).into());
        assert_eq!(to_second.try_recv(), Ok(vec![Ok(accepted(3))]));
        let failed = vec![Err(Error::Closed("a test")); 2];
        assert_eq!(to_first.try_recv(), Ok(failed));
        assert!(
            passengers.next_deadline().is_some(),
            "the second was not late"
        );
    }
}
