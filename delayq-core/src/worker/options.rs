//! Options of a worker.

use std::time::Duration;

use crate::fleet::FleetLimits;
use crate::history::Recording;
use crate::retry::RetryPolicy;

/// The risk that a type takes when a process dies in the middle of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// The task is delivered again: it may run twice. The default.
    #[default]
    AtLeastOnce,
    /// The task is settled as done before it starts: it may be cut off, but never runs twice. There
    /// are no retries.
    AtMostOnce,
}

/// The treatment of a task that is claimed too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLate {
    /// Run it, however late. The default.
    #[default]
    Run,
    /// End it as expired.
    Drop,
    /// Send it to dead, for an operator to decide.
    Dead,
    /// Give it back, due at a random time within this span, or before it expires, so that after a
    /// downtime not all overdue tasks run at once. Counts as a release, not as an attempt. A task
    /// that was released before, for this reason or by its worker, is run.
    Spread(Duration),
}

/// The meaning of "too late" and its consequence. Only first attempts are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatePolicy {
    /// The consequence.
    pub action: OnLate,
    /// Lateness above this is too late. Not used with [`OnLate::Run`].
    pub after: Duration,
}

/// The options of one worker, set by the attribute or the builder.
///
/// When several workers serve one type (fan-out), the type uses the longest lock and time limit,
/// the smallest concurrency, fleet limits and `max_pending`, the largest weight, the first pool
/// that one of them names and the first worker's late policy. It is at-most-once only if all
/// workers are. Each worker keeps its own retry policy and `max_releases`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// When a failed attempt is repeated. Default [`RetryPolicy::DEFAULT`].
    pub retry: RetryPolicy,
    /// Number of releases of a task after which the next one sends it to dead; default 1000, at
    /// least 1. A task that is released every 30 s for 8 hours stays below.
    pub max_releases: u32,
    /// Time limit of one attempt; default 30 minutes. After that it counts as failed, and the
    /// worker's future is dropped (a blocking worker cannot be stopped: it keeps its slot until it
    /// returns).
    pub timeout: Duration,
    /// How long a claim's lock lasts; default 30 s, at least 1 s. It is extended while the worker
    /// runs, so it only limits how long a crashed holder delays its tasks.
    pub lock: Duration,
    /// Maximum number of tasks of the type that this process runs at the same time; default 256, at
    /// least 1. The default is two batches of a claim, so that one can be fetched while the other
    /// runs.
    pub concurrency: usize,
    /// The pool whose slots the type shares with others in this process, in addition to its own
    /// `concurrency`. Its number of slots is declared by `.pool(name, slots)` of the builder.
    /// Default `None`: the type shares with no other.
    pub pool: Option<&'static str>,
    /// The type's share of its pool when there are more due tasks than slots, 1 to 100. With weight
    /// 8 a type starts eight attempts for each one of a type with weight 1. Default 1. Only with a
    /// pool.
    pub weight: u32,
    /// At-least-once (default) or at-most-once.
    pub delivery: Delivery,
    /// True if the worker blocks its thread; it then runs on the runtime's blocking pool.
    pub blocking: bool,
    /// The treatment of tasks that are claimed too late; default: run them.
    pub late: LatePolicy,
    /// Limits over all instances together; default: none.
    pub fleet: FleetLimits,
    /// Number of scheduled tasks of the type at which submits are refused with
    /// [`Error::QueueFull`](crate::Error::QueueFull), at least 1. Default `None`: the limit in the
    /// store is not changed; at first there is none.
    pub max_pending: Option<u64>,
    /// Number of shards of the type on Redis, 1 to 256, each of which can be on a different node of
    /// a cluster. Default `None`: the number in the store is not changed; at first it is one. It is
    /// never lowered. Not together with fleet limits.
    pub shards: Option<u32>,
    /// Whether the ends of the type's tasks are recorded for a history, and what of their messages.
    /// Default `None`: as the plugin says, which records them without messages if it has a history.
    pub history: Option<Recording>,
    /// How long a history keeps what became of the type's tasks. Default `None`: as the plugin
    /// says; `Duration::MAX`: for ever. It is kept in the history database, so that other instances
    /// remove nothing earlier.
    pub history_retention: Option<Duration>,
}

impl WorkerOptions {
    /// The defaults, usable in constants.
    pub const DEFAULT: Self = Self {
        retry: RetryPolicy::DEFAULT,
        max_releases: 1_000,
        timeout: Duration::from_mins(30),
        lock: Duration::from_secs(30),
        concurrency: 256,
        pool: None,
        weight: 1,
        delivery: Delivery::AtLeastOnce,
        blocking: false,
        late: LatePolicy {
            action: OnLate::Run,
            after: Duration::ZERO,
        },
        fleet: FleetLimits::NONE,
        max_pending: None,
        shards: None,
        history: None,
        history_retention: None,
    };
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}
