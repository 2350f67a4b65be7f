//! Options of a worker.

use std::time::Duration;

use crate::fleet::FleetLimits;
use crate::retry::RetryPolicy;

/// Which of two risks a type takes when a process dies in the middle of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// The task is given again: it may run twice. The default.
    #[default]
    AtLeastOnce,
    /// The task is settled as done before it starts: it may be cut off, but never runs twice. There
    /// are no retries.
    AtMostOnce,
}

/// What to do with a task that is claimed too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLate {
    /// Run it, however late. The default.
    #[default]
    Run,
    /// End it as expired.
    Drop,
    /// Send it to dead, for an operator to decide.
    Dead,
    /// Give it back, due at a random time within this span, or before it expires: after a downtime
    /// not all overdue tasks run at once. Counts as a release and as no attempt. A task that was
    /// released before, by this or by its worker, is run.
    Spread(Duration),
}

/// What "too late" means and what happens then. Only first attempts are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatePolicy {
    /// What happens.
    pub action: OnLate,
    /// Lateness above this is too late. Not used with [`OnLate::Run`].
    pub after: Duration,
}

/// The options of one worker, as the attribute or the builder gives them.
///
/// When several workers serve one type (fan-out), the type uses the longest lock and time limit,
/// the smallest concurrency, fleet limits and bound, the largest weight, the first pool that one of
/// them names and the first worker's late policy, and at-most-once only if all say so; retry
/// policies and `max_releases` stay each worker's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// When a failed attempt is repeated. Default [`RetryPolicy::DEFAULT`].
    pub retry: RetryPolicy,
    /// Releases of a task after which the next one sends it to dead; default 1000, at least 1: a
    /// task that is looked at every 30 s for 8 hours stays below.
    pub max_releases: u32,
    /// Time limit of one attempt; default 30 minutes. It then counts as failed, and the worker's
    /// future is dropped (a blocking worker cannot be stopped: it keeps its place until it
    /// returns).
    pub timeout: Duration,
    /// How long a claim's lock lasts; default 30 s, at least 1 s. Extended while the worker runs,
    /// so it only bounds how long a crashed holder delays its tasks.
    pub lock: Duration,
    /// Most tasks of the type that this process runs at the same time; default 256, at least 1:
    /// two batches of a claim, so that one is on its way while the other runs.
    pub concurrency: usize,
    /// The pool whose slots the type shares with others in this process, besides its own
    /// `concurrency`. Its number of slots is declared by `.pool(name, slots)` of the builder.
    /// Default `None`: the type shares with nobody.
    pub pool: Option<&'static str>,
    /// The type's share of its pool when there is more to do than there are slots, 1 to 100: with
    /// 8, eight starts for each one of a type with 1. Default 1. Only with a pool.
    pub weight: u32,
    /// At-least-once (default) or at-most-once.
    pub delivery: Delivery,
    /// Whether the worker blocks its thread; it then runs on the runtime's blocking pool.
    pub blocking: bool,
    /// What to do with tasks that are claimed too late; default: run them.
    pub late: LatePolicy,
    /// Limits over all instances together; default: none.
    pub fleet: FleetLimits,
    /// Scheduled tasks of the type above which submits are refused with
    /// [`Error::QueueFull`](crate::Error::QueueFull), at least 1. Default `None`: the type keeps
    /// the bound that it has in the store, at first none.
    pub max_pending: Option<u64>,
    /// Shards of the type on Redis, 1 to 256, each of which can lie on another node of a cluster.
    /// Default `None`: it keeps those that it has, at first one. Their number is never lowered. Not
    /// together with fleet limits.
    pub shards: Option<u32>,
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
    };
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}
