//! The way in: submits made at the same time share round trips, without waiting for one another.
//!
//! A task on the store's own thread takes whatever is queued, groups it by type into script calls of up to
//! [`MAX_BATCH`] tasks, and sends them in one go: a flight. While [`MAX_FLIGHTS`] to a server are in the air, more
//! gather. Each node of a cluster has flights of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::client::{Client, Route};
use super::flight::{Flight, Landing, Prepared};
use super::road::Road;
use super::scope::Scope;
use crate::error::{Error, Result};
use crate::store::MAX_BATCH;

/// Submits that wait to be sent; beyond it their callers wait.
const QUEUE: usize = 1_024;
/// Flights in the air: enough to keep the server busy while one is built and one is on its way back, and few
/// enough that tasks gather. Between 2 and 6 it makes no difference on one machine.
const MAX_FLIGHTS: usize = 4;
/// Tasks of one flight: enough to keep the server busy while the next one is built.
pub(super) const MAX_FLIGHT: usize = 8 * MAX_BATCH;

/// How often those that wait for a node of a cluster look whether another one has their slot by now.
const LOOK: Duration = Duration::from_millis(50);

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
    deadline: Instant,
    pub(super) tasks: usize,
}

impl Passenger {
    pub(super) fn answer(&mut self, outcomes: Vec<Result<Landing>>) {
        if let Some(reply) = self.reply.take() {
            // A caller that went away wants no answer.
            let _ = reply.send(outcomes);
        }
    }

    fn fail(&mut self, error: &Error) {
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
}

impl Submitter {
    /// Starts the task that sends; it ends with the client.
    pub(super) fn start(client: &Client, scope: &Arc<Scope>) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let desk = Desk {
            waiting: VecDeque::new(),
            flights: JoinSet::new(),
            in_the_air: HashMap::new(),
            route: client.route().clone(),
            scope: Arc::clone(scope),
        };
        client.spawn(desk.run(jobs));
        Self {
            queue,
            scope: Arc::clone(scope),
            is_cluster: client.route().is_cluster(),
        }
    }

    /// Submits tasks, in their order; one outcome each.
    pub(super) async fn submit(&self, tasks: Vec<Prepared>) -> Vec<Result<Landing>> {
        if !self.is_cluster {
            return self.submit_to(0, tasks).await;
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

/// Where submits wait for their flight.
struct Desk {
    waiting: VecDeque<Job>,
    /// Each ends with the number of its server.
    flights: JoinSet<usize>,
    in_the_air: HashMap<usize, usize>,
    route: Route,
    scope: Arc<Scope>,
}

impl Desk {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        loop {
            let has_room = self.waiting.len() < QUEUE;
            let oldest = self.waiting.front().map(|job| job.passenger.deadline);
            let down = self
                .waiting
                .front()
                .and_then(|job| self.route.down(job.slot));
            let may_move = self.route.is_cluster() && oldest.is_some();
            tokio::select! {
                job = jobs.recv(), if has_room => match job {
                    Some(job) => self.waiting.push_back(job),
                    // The store is gone, and with it everybody who waits.
                    None => return,
                },
                Some(landed) = self.flights.join_next() => self.landed(landed.ok()),
                () = async { if let Some(link) = &down { link.up().await } }, if down.is_some() => {}
                () = sleep(LOOK), if may_move => {}
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

    fn landed(&mut self, server: Option<usize>) {
        match server {
            Some(server) => {
                if let Some(flights) = self.in_the_air.get_mut(&server) {
                    *flights = flights.saturating_sub(1);
                }
                self.in_the_air.retain(|_, flights| *flights > 0);
            }
            // It panicked: nobody knows where it went, and too many at once do less harm than none.
            None => self.in_the_air.clear(),
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
                job.passenger.fail(&self.route.why_not_sent(job.slot));
            }
        }
    }

    fn has_room(&self, server: usize) -> bool {
        self.in_the_air.get(&server).copied().unwrap_or(0) < MAX_FLIGHTS
    }

    /// Sends what can be sent. Those whose server is down or busy stay, in their order.
    fn send_off(&mut self) {
        let mut loading: HashMap<usize, Loading> = HashMap::new();
        let mut staying = VecDeque::new();
        while let Some(job) = self.waiting.pop_front() {
            let Some(road) = Road::to(&self.route, job.slot) else {
                staying.push_back(job);
                continue;
            };
            let server = road.server();
            if !self.has_room(server) {
                staying.push_back(job);
                if self.route.is_cluster() {
                    continue;
                }
                break;
            }
            let flight = loading.entry(server).or_insert_with(|| Loading::new(road));
            flight.tasks += job.tasks.len();
            flight.jobs.push(job);
            if flight.tasks >= MAX_FLIGHT
                && let Some(flight) = loading.remove(&server)
            {
                self.take_off(server, flight);
            }
        }
        for (server, flight) in loading {
            self.take_off(server, flight);
        }
        staying.append(&mut self.waiting);
        self.waiting = staying;
    }

    fn take_off(&mut self, server: usize, flight: Loading) {
        *self.in_the_air.entry(server).or_default() += 1;
        let scope = Arc::clone(&self.scope);
        self.flights.spawn(async move {
            fly(flight.jobs, flight.road, scope).await;
            server
        });
    }
}

/// A flight before it takes off.
struct Loading {
    road: Road,
    jobs: Vec<Job>,
    tasks: usize,
}

impl Loading {
    fn new(road: Road) -> Self {
        Self {
            road,
            jobs: Vec::new(),
            tasks: 0,
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

    fn land(&mut self, outcomes: Vec<Result<Landing>>) {
        let mut outcomes = outcomes.into_iter();
        for passenger in &mut self.all {
            let own = outcomes.by_ref().take(passenger.tasks).collect();
            passenger.answer(own);
        }
    }
}

/// Sends the tasks of `jobs` and answers each one by its deadline at the latest.
async fn fly(jobs: Vec<Job>, road: Road, scope: Arc<Scope>) {
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
}
