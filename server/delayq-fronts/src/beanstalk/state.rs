//! A server's knowledge of tubes and of the jobs that its clients have reserved.
//!
//! All of it follows from the store and the open connections, so losing it loses no job.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use delayq_plugin::Cursor;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::job::{Held, Reserved};
use super::tube::{Lane, Tube, TubeName};

/// The number of jobs whose lane is remembered.
const MAX_HOMES: usize = 100_000;

/// The place of a job.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) tube: TubeName,
    pub(super) lane: Lane,
}

/// A client that waits for a job.
#[derive(Debug)]
pub(super) struct Waiter {
    /// The connection.
    pub(super) holder: u64,
    /// The watched tubes.
    pub(super) tubes: Arc<[TubeName]>,
    /// Receives the job.
    pub(super) job: oneshot::Sender<Reserved>,
}

/// The state of the hub.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) tubes: HashMap<TubeName, Tube>,
    /// The names of `tubes`, in the order of `list-tubes`.
    order: Vec<TubeName>,
    /// Tubes by their part in type names.
    pub(super) parts: HashMap<String, TubeName>,
    /// Waiting clients by turn, the longest waiting first.
    pub(super) waiters: BTreeMap<u64, Waiter>,
    /// The next turn; turns are never reused.
    next_turn: u64,
    pub(super) held: HashMap<u64, Held>,
    deadlines: BTreeSet<(Instant, u64)>,
    homes: HashMap<u64, Home>,
    /// How often delayed jobs were kicked on this server.
    pub(super) kicks: HashMap<u64, u32>,
}

impl State {
    /// A tube; added if unknown.
    pub(super) fn tube(&mut self, name: &TubeName) -> &mut Tube {
        if !self.tubes.contains_key(name) {
            let tube = Tube::new(name);
            self.parts.insert(tube.part.clone(), name.clone());
            self.order.push(name.clone());
            self.tubes.insert(name.clone(), tube);
        }
        self.tubes
            .entry(name.clone())
            .or_insert_with(|| Tube::new(name))
    }

    /// Forgets a tube without lanes that no client refers to.
    pub(super) fn drop_unused(&mut self, name: &TubeName) {
        let is_unused = |tube: &Tube| !tube.is_referred() && tube.lanes.is_empty();
        if *name == TubeName::first() || !self.tubes.get(name).is_some_and(is_unused) {
            return;
        }
        if let Some(tube) = self.tubes.remove(name) {
            self.parts.remove(&tube.part);
        }
        // beanstalkd fills a gap with the last tube, too.
        if let Some(place) = self.order.iter().position(|known| known == name) {
            self.order.swap_remove(place);
        }
    }

    /// The tubes in the order of beanstalkd, without those in `gone`. A gone tube moves to the end
    /// of the order.
    pub(super) fn list(&mut self, gone: &HashSet<TubeName>) -> Vec<TubeName> {
        let (mut place, mut behind) = (0, Vec::new());
        while let Some(name) = self.order.get(place) {
            if gone.contains(name) {
                behind.push(self.order.swap_remove(place));
            } else {
                place += 1;
            }
        }
        let listed = self.order.clone();
        self.order.extend(behind);
        listed
    }

    /// Records that a client asks for a job of these tubes.
    pub(super) fn asked_for(&mut self, tubes: &[TubeName], now: Instant) {
        for name in tubes {
            if let Some(tube) = self.tubes.get_mut(name) {
                tube.asked_at = Some(now);
            }
        }
    }

    /// The lanes whose jobs clients hold or have asked for since `since`.
    pub(super) fn served(&self, since: Instant) -> BTreeSet<Lane> {
        let tubes = self.tubes.values();
        let asked = tubes.filter(|tube| tube.asked_at.is_some_and(|at| at >= since));
        let lanes = asked.flat_map(|tube| tube.lanes.keys());
        let held = self.held.values().map(|held| &held.lane);
        lanes.chain(held).cloned().collect()
    }

    /// Adds a waiting client behind the others.
    pub(super) fn wait(&mut self, waiter: Waiter) {
        self.waiters.insert(self.next_turn, waiter);
        self.next_turn += 1;
    }

    /// The last dead job of a lane that was checked for an abandoned move.
    pub(super) fn mended(&self, tube: &TubeName, lane: &Lane) -> Option<Cursor> {
        let outlook = self.tubes.get(tube)?.lanes.get(lane)?;
        outlook.mended.clone()
    }

    /// Remembers how far the dead jobs of a lane were checked.
    pub(super) fn set_mended(&mut self, tube: &TubeName, lane: &Lane, place: Cursor) {
        let tube = self.tubes.get_mut(tube);
        if let Some(outlook) = tube.and_then(|tube| tube.lanes.get_mut(lane)) {
            outlook.mended = Some(place);
        }
    }

    /// The place where a job was last seen.
    pub(super) fn home(&self, number: u64) -> Option<Home> {
        self.homes.get(&number).cloned()
    }

    /// Remembers the place of a job.
    pub(super) fn set_home(&mut self, number: u64, tube: &TubeName, lane: &Lane) {
        if self.homes.len() >= MAX_HOMES {
            self.homes.clear();
        }
        let (tube, lane) = (tube.clone(), lane.clone());
        self.homes.insert(number, Home { tube, lane });
    }

    /// Forgets a job that is gone.
    pub(super) fn forget(&mut self, number: u64) {
        self.homes.remove(&number);
        self.kicks.remove(&number);
    }

    /// Records a reserved job.
    pub(super) fn hold(&mut self, held: Held) {
        self.set_home(held.number, &held.tube, &held.lane);
        self.deadlines.insert((held.deadline, held.number));
        if let Some(before) = self.held.insert(held.number, held) {
            self.deadlines.remove(&(before.deadline, before.number));
        }
    }

    /// The job, if the holder holds it.
    pub(super) fn held_by(&self, holder: u64, number: u64) -> Option<&Held> {
        self.held.get(&number).filter(|held| held.holder == holder)
    }

    /// Takes the job from its holder.
    pub(super) fn take(&mut self, holder: u64, number: u64) -> Option<Held> {
        self.held_by(holder, number)?;
        let held = self.held.remove(&number)?;
        self.deadlines.remove(&(held.deadline, number));
        Some(held)
    }

    /// Takes all jobs from a holder.
    pub(super) fn take_all(&mut self, holder: u64, numbers: &BTreeSet<u64>) -> Vec<Held> {
        let taken = numbers
            .iter()
            .filter_map(|number| self.take(holder, *number));
        taken.collect()
    }

    /// Moves the deadline of a job.
    pub(super) fn set_deadline(&mut self, number: u64, deadline: Instant) {
        if let Some(held) = self.held.get_mut(&number) {
            self.deadlines.remove(&(held.deadline, number));
            held.deadline = deadline;
            self.deadlines.insert((deadline, number));
        }
    }

    /// Takes the jobs whose time to run is over.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<Held> {
        let late = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        let late: Vec<u64> = late.map(|(_, number)| *number).collect();
        let taken = late.into_iter().filter_map(|number| {
            let holder = self.held.get(&number)?.holder;
            self.take(holder, number)
        });
        taken.collect()
    }

    /// The earliest end of a time to run.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}
