//! What a client uses, watches and has reserved, and what it is answered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delayq_ops::Operator;
use delayq_plugin::{Error, Result};
use delayq_service::context::Context;
use tokio::time::Instant;
use tracing::debug;

use super::ends;
use super::hub::Hub;
use super::reserved::Reserved;
use super::tube_name::TubeName;

/// A client that reserves within this time of the end of a job that it holds is told so.
const MARGIN: Duration = Duration::from_secs(1);

/// What a command answers.
pub(super) type Answered = Result<()>;

/// The client of a connection.
pub(super) struct Client {
    pub(super) hub: Arc<Hub>,
    /// Its name among the holders of jobs.
    pub(super) holder: u64,
    pub(super) used: TubeName,
    pub(super) watched: Vec<TubeName>,
    /// The jobs that it has reserved, some of them perhaps not any more.
    pub(super) jobs: BTreeSet<u64>,
    pub(super) out: Vec<u8>,
    pub(super) is_producer: bool,
    pub(super) is_worker: bool,
    pub(super) context: Context,
    /// Logs what it changes beside its own jobs.
    pub(super) operator: Operator,
}

impl Client {
    /// One that has asked for nothing yet.
    pub(super) fn new(hub: Arc<Hub>, origin: String) -> Self {
        let context = hub.context(origin);
        let count = &hub.counters;
        count.connections.add(1);
        count.connections_ever.add(1);
        hub.holders.add(1);
        let first = TubeName::first();
        let mut state = hub.state();
        let tube = state.tube(&first);
        tube.using += 1;
        tube.watching += 1;
        drop(state);
        Self {
            holder: hub.counters.connections_ever.get() << 20 | hub.holders.get() & 0xf_ffff,
            used: first.clone(),
            watched: vec![first],
            jobs: BTreeSet::new(),
            out: Vec::new(),
            is_producer: false,
            is_worker: false,
            operator: context.operator(),
            context,
            hub,
        }
    }

    /// Counts that it waits for a job, or does not any more.
    pub(super) fn count_waiting(&self, begins: bool) {
        let mut state = self.hub.state();
        for name in &self.watched {
            let tube = state.tube(name);
            if begins {
                tube.waiting += 1;
            } else {
                tube.waiting = tube.waiting.saturating_sub(1);
            }
        }
        let count = &self.hub.counters.waiting;
        if begins {
            count.add(1);
        } else {
            count.sub(1);
        }
    }

    /// From when on the first job that it holds ends soon.
    pub(super) fn soonest(&self) -> Option<Instant> {
        let state = self.hub.state();
        let held = self.jobs.iter();
        let held = held.filter_map(|number| state.held_by(self.holder, *number));
        let soonest = held.map(|held| held.deadline).min();
        soonest.map(|at| at.checked_sub(MARGIN).unwrap_or(at))
    }

    pub(super) fn note_producer(&mut self) {
        if !self.is_producer {
            self.is_producer = true;
            self.hub.counters.producers.add(1);
        }
    }

    pub(super) fn note_worker(&mut self) {
        if !self.is_worker {
            self.is_worker = true;
            self.hub.counters.workers.add(1);
        }
    }

    pub(super) fn say_reserved(&mut self, reserved: &Reserved) {
        self.jobs.insert(reserved.number);
        self.say_body(&format!("RESERVED {}", reserved.number), &reserved.body);
    }

    /// Answers a line.
    pub(super) fn say(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Answers a line with the length of the body behind it.
    pub(super) fn say_body(&mut self, line: &str, body: &[u8]) {
        self.say(&format!("{line} {}", body.len()));
        self.out.extend_from_slice(body);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) fn say_error(&mut self, error: &Error) {
        debug!(%error, "a request failed");
        let line = match error {
            Error::Full { .. } | Error::QueueFull { .. } | Error::InvalidInput { .. } => {
                "OUT_OF_MEMORY"
            }
            Error::LimitExceeded { .. } => "JOB_TOO_BIG",
            _ => "INTERNAL_ERROR",
        };
        self.say(line);
    }

    /// Gives back what its client held, and refers to no tube any more.
    pub(super) async fn leave(self) {
        let hub = &self.hub;
        let left = {
            let mut state = hub.state();
            state.tube(&self.used).using -= 1;
            for name in &self.watched {
                state.tube(name).watching -= 1;
                state.drop_unused(name);
            }
            state.drop_unused(&self.used);
            state.take_all(self.holder, &self.jobs)
        };
        let count = &hub.counters;
        count.connections.sub(1);
        count.producers.sub(u64::from(self.is_producer));
        count.workers.sub(u64::from(self.is_worker));
        ends::leave(hub, left).await;
    }
}
