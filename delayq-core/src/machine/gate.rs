//! Explanation of a task: since when it has been running, or what it waits for.

use crate::fleet::FleetLimits;
use crate::state::TaskState;
use crate::task::{TaskInfo, WaitsFor};
use crate::time::{Reading, Timestamp};

use super::{ErrorLog, RateLimiter};

/// The state of a type that lets its due tasks start or holds them back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gate {
    /// The store's present time.
    pub reading: Reading,
    /// The end of the pause while paused; `MAX`: no end.
    pub paused_until: Option<Timestamp>,
    /// The number of running tasks.
    pub running: usize,
    /// A claim left due tasks behind because no slot was free.
    pub held_back: bool,
    /// The limits in the settings of the type.
    pub fleet: FleetLimits,
    /// See [`RateLimiter`]; microseconds.
    pub tat: i64,
}

/// The store's facts about a task besides its [`TaskInfo`].
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The due time set by the last submit, reschedule or requeue.
    pub asked_due: Timestamp,
    /// The fence of the lock; 0 for none.
    pub fence: u64,
    /// The short form of the holder's identity, if known.
    pub holder: Option<&'a str>,
    /// See [`ErrorLog`].
    pub errors: &'a str,
}

impl Gate {
    /// Fills in the explanation of a task that has not ended: due time, start, holder, errors, and
    /// what it waits for.
    pub fn explain(&self, info: &mut TaskInfo, stored: Stored<'_>) {
        let log = ErrorLog::read(stored.errors, stored.asked_due);
        info.due_at = (!info.state.is_ended()).then_some(stored.asked_due);
        match info.state {
            TaskState::Scheduled if info.at > self.reading.now => {
                info.waits_for = Some(due_time(info, stored.asked_due, log.releases));
            }
            TaskState::Scheduled => info.waits_for = Some(self.hold()),
            TaskState::Running => {
                let claimed_at = TaskInfo::claimed_at(stored.fence).min(self.reading.now);
                info.started_at = (stored.fence > 0).then_some(claimed_at);
                info.attempt_due_at = info.started_at.and_then(|started_at| {
                    let releases = info.history.releases;
                    log.due_of(info.attempt, releases, started_at, stored.asked_due)
                });
                info.fence = (stored.fence > 0).then_some(stored.fence);
                info.holder = stored.holder.map(str::to_owned);
            }
            _ => {}
        }
        info.errors = log.errors;
    }

    /// The reason why due tasks do not start.
    fn hold(&self) -> WaitsFor {
        let has_slot = !self.held_back && self.fleet.free_slots(self.running) > 0;
        if let Some(until) = self.paused_until {
            let until = (until < Timestamp::MAX).then_some(until);
            WaitsFor::Pause { until }
        } else if self.running > 0 && !has_slot {
            WaitsFor::Concurrency
        } else if self.has_no_start() {
            WaitsFor::Rate
        } else {
            WaitsFor::Claim
        }
    }

    fn has_no_start(&self) -> bool {
        let now = self.reading.now.as_millis().saturating_mul(1_000);
        self.fleet.rate.map_or(self.tat > now, |rate| {
            RateLimiter::new(rate, self.tat, self.reading).allowed() == 0
        })
    }
}

/// The reason why a task is due later. `releases` is the number of releases at its newest error.
fn due_time(info: &TaskInfo, asked_due: Timestamp, releases: Option<u32>) -> WaitsFor {
    let history = &info.history;
    let is_untried = history.next_attempt() == 1 && history.releases == 0;
    if info.at == asked_due || is_untried {
        return match history.requeues {
            1.. if is_untried => WaitsFor::Requeue,
            _ => WaitsFor::Delay,
        };
    }
    let is_released = releases.is_some_and(|before| history.releases > before);
    if history.failures == 0 || is_released {
        WaitsFor::Release
    } else {
        WaitsFor::Retry
    }
}
