//! Where submits wait for their flight, each slot's in its own queue.
//!
//! A flight takes what waits for one server. In a cluster each of its slots is a leg: a slot that turns out to be
//! elsewhere, or on its way, goes on by itself, and neither holds up the others nor keeps the place of the flight.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::client::{Joint, Route};
use super::road::Road;
use super::scope::Scope;
use super::submit::{Job, MAX_FLIGHT, QUEUE, fly};

/// Flights in the air: enough to keep the server busy while one is built and one is on its way back, and few
/// enough that tasks gather. Between 2 and 6 it makes no difference on one machine.
const MAX_FLIGHTS: usize = 4;
/// How many times [`QUEUE`] may wait where there are several servers: those for one that is away must leave room for the
/// others, and so many come in a few seconds. Each has a caller that waits, or has gone away a moment ago.
const QUEUES: usize = 64;
/// How often those that wait for a node of a cluster look whether another one has their slot by now.
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Desk {
    waiting: HashMap<u16, VecDeque<Job>>,
    flights: JoinSet<Landed>,
    /// Each ends with its slot.
    legs: JoinSet<u16>,
    /// By server.
    in_the_air: HashMap<usize, usize>,
    /// Legs that are still on their way though their flight has landed, by slot; below 0 while only the end of the
    /// leg is known.
    detours: HashMap<u16, i32>,
    route: Route,
    scope: Arc<Scope>,
}

/// A flight that has answers to all that it took.
struct Landed {
    server: usize,
    slots: Vec<u16>,
}

impl Desk {
    pub(super) fn new(route: &Route, scope: &Arc<Scope>) -> Self {
        Self {
            waiting: HashMap::new(),
            flights: JoinSet::new(),
            legs: JoinSet::new(),
            in_the_air: HashMap::new(),
            detours: HashMap::new(),
            route: route.clone(),
            scope: Arc::clone(scope),
        }
    }

    /// Sends what comes in, until nobody can send any more.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        loop {
            let room = self.room();
            let fronts = self.waiting.values().filter_map(VecDeque::front);
            let oldest = fronts.map(|job| job.passenger.deadline).min();
            let is_cluster = self.route.is_cluster();
            let alone = self.waiting.keys().next().filter(|_| !is_cluster);
            let down = alone.and_then(|slot| self.route.down(*slot));
            tokio::select! {
                job = jobs.recv(), if room > 0 => match job {
                    Some(job) => self.take(job),
                    // The store is gone, and with it everybody who waits.
                    None => return,
                },
                Some(landed) = self.flights.join_next() => self.landed(landed.ok()),
                Some(slot) = self.legs.join_next() => self.arrived(slot.ok()),
                () = async { if let Some(link) = &down { link.up().await } }, if down.is_some() => {}
                () = sleep(LOOK), if is_cluster && oldest.is_some() => {}
                () = sleep_until(oldest.unwrap_or_else(Instant::now).into()), if oldest.is_some() => {}
            }
            for _ in 1..room {
                let Ok(job) = jobs.try_recv() else { break };
                self.take(job);
            }
            self.give_up_late();
            self.send_off();
        }
    }

    fn take(&mut self, job: Job) {
        self.waiting.entry(job.slot).or_default().push_back(job);
    }

    /// How many more may wait.
    fn room(&self) -> usize {
        let most = if self.route.is_cluster() {
            QUEUES * QUEUE
        } else {
            QUEUE
        };
        most.saturating_sub(self.waiting.values().map(VecDeque::len).sum())
    }

    fn landed(&mut self, landed: Option<Landed>) {
        let Some(landed) = landed else {
            // It panicked: nobody knows where it went, and too many at once do less harm than none.
            self.in_the_air.clear();
            return;
        };
        if let Some(flights) = self.in_the_air.get_mut(&landed.server) {
            *flights = flights.saturating_sub(1);
        }
        self.in_the_air.retain(|_, flights| *flights > 0);
        for slot in landed.slots {
            self.detour(slot, 1);
        }
    }

    fn arrived(&mut self, slot: Option<u16>) {
        match slot {
            Some(slot) => self.detour(slot, -1),
            // As with a flight.
            None => self.detours.clear(),
        }
    }

    fn detour(&mut self, slot: u16, change: i32) {
        let detours = self.detours.entry(slot).or_default();
        *detours += change;
        if *detours == 0 {
            self.detours.remove(&slot);
        }
    }

    /// Answers those whose time is over before they were sent. Deadlines come in the order of a queue.
    fn give_up_late(&mut self) {
        let now = Instant::now();
        for (slot, jobs) in &mut self.waiting {
            while jobs
                .front()
                .is_some_and(|job| job.passenger.deadline <= now)
            {
                if let Some(mut job) = jobs.pop_front() {
                    job.passenger.fail(&self.route.why_not_sent(*slot));
                }
            }
        }
    }

    fn has_room(&self, server: usize) -> bool {
        self.in_the_air.get(&server).copied().unwrap_or(0) < MAX_FLIGHTS
    }

    /// Sends what can be sent. Those whose server is down or busy stay, in their order.
    fn send_off(&mut self) {
        self.waiting.retain(|_, jobs| !jobs.is_empty());
        let mut slots: Vec<u16> = self.waiting.keys().copied().collect();
        // None is the first each time when there is not room for all.
        fastrand::shuffle(&mut slots);
        let mut loading: HashMap<usize, Loading> = HashMap::new();
        for slot in slots {
            let is_away = self.detours.get(&slot).is_some_and(|detours| *detours > 0);
            if let Some(road) = Road::to(&self.route, slot).filter(|_| !is_away) {
                self.load(slot, &road, &mut loading);
            }
        }
        for (server, flight) in loading {
            self.take_off(server, flight);
        }
    }

    /// Puts what waits for a slot on flights; those that are full take off.
    fn load(&mut self, slot: u16, road: &Road, loading: &mut HashMap<usize, Loading>) {
        let server = road.server();
        while self.has_room(server)
            && let Some(job) = self.waiting.get_mut(&slot).and_then(VecDeque::pop_front)
        {
            let flight = loading.entry(server).or_insert_with(|| Loading::new(road));
            flight.tasks += job.tasks.len();
            flight.legs.entry(slot).or_default().push(job);
            if flight.tasks >= MAX_FLIGHT
                && let Some(flight) = loading.remove(&server)
            {
                self.take_off(server, flight);
            }
        }
    }

    fn take_off(&mut self, server: usize, flight: Loading) {
        *self.in_the_air.entry(server).or_default() += 1;
        let slots: Vec<u16> = flight.legs.keys().copied().collect();
        if !self.route.is_cluster() {
            let (scope, slots) = (Arc::clone(&self.scope), Vec::new());
            self.flights.spawn(async move {
                for jobs in flight.legs.into_values() {
                    fly(jobs, flight.road.with(None), Arc::clone(&scope)).await;
                }
                Landed { server, slots }
            });
            return;
        }
        let (joint, seats) = Joint::new(slots.len());
        for ((slot, jobs), seat) in flight.legs.into_iter().zip(seats) {
            let (road, scope) = (flight.road.with(Some(seat)), Arc::clone(&self.scope));
            self.legs.spawn(async move {
                fly(jobs, road, scope).await;
                slot
            });
        }
        let live = flight.road.live;
        self.flights.spawn(async move {
            joint.send(live).await;
            Landed { server, slots }
        });
    }
}

/// A flight before it takes off.
struct Loading {
    road: Road,
    legs: HashMap<u16, Vec<Job>>,
    tasks: usize,
}

impl Loading {
    fn new(road: &Road) -> Self {
        Self {
            road: road.with(None),
            legs: HashMap::new(),
            tasks: 0,
        }
    }
}
