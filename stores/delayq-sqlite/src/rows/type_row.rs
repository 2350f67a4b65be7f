//! Row of a type: its counts, its pause, its limits, its largest fence.

use std::time::Duration;

use delayq_core::error::Error;
use delayq_core::fleet::{FleetLimits, Rate};
use delayq_core::history::KeptMessage;
use delayq_core::machine::MAX_FENCE;
use delayq_core::name::TaskType;
use delayq_core::operate::TypeTotals;
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;
use rusqlite::{Connection, Row, params};

use super::ends_change::EndsChange;
use super::number::signed;
use crate::error::Outcome;

const UPDATE_TYPE: &str = "UPDATE types SET listed = ?2, paused_until = ?3, fence = ?4, \
     scheduled = ?5, running = ?6, dead = ?7, ended = ?8, tat = ?9, held_back = ?10, \
     max_pending = ?11, refused = ?12, fleet_concurrency = ?13, rate_starts = ?14, \
     rate_per = ?15, rate_burst = ?16, done = ?17, died = ?18, cancelled = ?19, expired = ?20, \
     failed = ?21, forgotten = ?22, history = ?23 WHERE id = ?1";

/// The row of a type, written back once at the end of the transaction.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "two are columns of the row, two are notes on it"
)]
pub(crate) struct TypeRow {
    /// `None`, which matches nothing in SQL, for a type without a row: it reads as empty.
    pub(crate) id: Option<i64>,
    pub(crate) listed: bool,
    pub(crate) paused_until: Timestamp,
    /// The largest fence issued so far.
    pub(crate) fence: u64,
    /// See [`RateLimiter`](delayq_core::machine::RateLimiter); microseconds.
    pub(crate) tat: i64,
    /// A claim left due tasks behind because no slot was free: freeing one wakes the handlers.
    pub(crate) held_back: bool,
    /// Maximum number of scheduled tasks.
    pub(crate) max_pending: Option<u64>,
    /// Number of tasks refused because of `max_pending`.
    pub(crate) refused: u64,
    /// Limits that replace the claimers' own.
    pub(crate) fleet: FleetLimits,
    /// Counts of ended tasks.
    pub(crate) totals: TypeTotals,
    /// The end time of the latest task that was forgotten before its retention was over.
    pub(crate) forgotten: Timestamp,
    /// The part of the message that the record of an end keeps; `None`: ends are not recorded.
    pub(crate) history: Option<KeptMessage>,
    /// The records written in this transaction.
    pub(super) recorded: EndsChange,
    /// True if handlers have to claim earlier than planned.
    pub(crate) is_woken: bool,
    /// Number of tasks that ended in this transaction: as many older ones may have to be forgotten.
    pub(crate) ended: usize,
    /// Numbers of scheduled, running, dead and ended tasks. Damage may have made a count negative.
    counts: [i64; 4],
    /// A due time that is not before the first one, once that has been read: a later task is not
    /// the first. `None` again when a scheduled task has left, as it may have been the first.
    pub(super) head: Option<Timestamp>,
    /// True if requests to run again wait; `None` until that has been read.
    pub(super) has_follow_ups: Option<bool>,
    is_changed: bool,
    damage: Option<DamagedColumn>,
}

/// A column with a value that no operation writes.
#[derive(Clone, Copy, Debug)]
struct DamagedColumn {
    column: &'static str,
    value: i64,
}

impl TypeRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let max_pending: Option<i64> = row.get(10)?;
        let count = i64::cast_unsigned;
        Ok(Self {
            id: row.get(0)?,
            listed: row.get(1)?,
            paused_until: Timestamp::from_millis(row.get(2)?),
            fence: count(row.get(3)?),
            counts: [row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?],
            tat: row.get(8)?,
            held_back: row.get(9)?,
            max_pending: max_pending.map(count),
            refused: count(row.get(11)?),
            fleet: fleet(row)?,
            totals: totals(row)?,
            forgotten: Timestamp::from_millis(optional(row, 21)?),
            history: history(row)?,
            damage: Self::damage(row)?,
            ..Self::default()
        })
    }

    /// The first column with a value that is never written.
    fn damage(row: &Row<'_>) -> rusqlite::Result<Option<DamagedColumn>> {
        let largest_time = Timestamp::MAX.as_millis();
        let largest_fence = signed(MAX_FENCE);
        for (index, column, largest) in [
            (2, "paused_until", largest_time),
            (3, "fence", largest_fence),
            (4, "scheduled", i64::MAX),
            (5, "running", i64::MAX),
            (6, "dead", i64::MAX),
            (7, "ended", i64::MAX),
            (8, "tat", i64::MAX),
            (10, "max_pending", i64::MAX),
            (11, "refused", i64::MAX),
            (12, "fleet_concurrency", u32::MAX.into()),
            (13, "rate_starts", u32::MAX.into()),
            (14, "rate_per", i64::MAX),
            (15, "rate_burst", u32::MAX.into()),
            (16, "done", i64::MAX),
            (17, "died", i64::MAX),
            (18, "cancelled", i64::MAX),
            (19, "expired", i64::MAX),
            (20, "failed", i64::MAX),
            (21, "forgotten", largest_time),
            (22, "history", u32::MAX.into()),
        ] {
            let value: Option<i64> = row.get(index)?;
            if let Some(value) = value.filter(|value| !(0..=largest).contains(value)) {
                return Ok(Some(DamagedColumn { column, value }));
            }
        }
        Ok(None)
    }

    /// Refuses a damaged row, naming table, row and column.
    pub(super) fn check(&self, task_type: &TaskType) -> Outcome<()> {
        let Some(damage) = self.damage else {
            return Ok(());
        };
        Err(Error::corrupt(
            format!(
                "types, row {} ({task_type}), column {}",
                self.id.unwrap_or_default(),
                damage.column
            ),
            format!(
                "{} is no value of it: run an audit with repair, or restore a backup",
                damage.value
            ),
        )
        .into())
    }

    /// The damage of the row, if any.
    pub(crate) fn problem(&self) -> Option<String> {
        let DamagedColumn { column, value } = self.damage?;
        Some(format!("the type's {column} is {value}"))
    }

    /// Replaces damaged values by safe ones: no pause, no limit, `fence` as the largest one. The
    /// audit counts the tasks afterwards.
    pub(crate) fn mend(&mut self, fence: u64) {
        self.is_changed = true;
        self.damage = None;
        if self.fence > MAX_FENCE {
            self.fence = fence;
        }
        self.counts = self.counts.map(|count| count.max(0));
        self.tat = self.tat.max(0);
        self.max_pending = self.max_pending.filter(|most| i64::try_from(*most).is_ok());
        self.refused = i64::try_from(self.refused).map_or(0, i64::cast_unsigned);
    }

    pub(super) fn write(&self, connection: &Connection) -> Outcome<()> {
        if !self.is_changed {
            return Ok(());
        }
        let [scheduled, running, dead, ended] = self.counts;
        let rate = self.fleet.rate;
        let per = rate.map(|rate| i64::try_from(rate.per.as_micros()).unwrap_or(i64::MAX));
        let TypeTotals {
            done,
            dead: died,
            cancelled,
            expired,
            failed,
            ..
        } = self.totals;
        connection.prepare_cached(UPDATE_TYPE)?.execute(params![
            self.id,
            self.listed,
            self.paused_until.as_millis(),
            signed(self.fence),
            scheduled,
            running,
            dead,
            ended,
            self.tat,
            self.held_back,
            self.max_pending.map(signed),
            signed(self.refused),
            self.fleet.concurrency,
            rate.map(|rate| rate.starts),
            per,
            rate.map(|rate| rate.burst),
            signed(done),
            signed(died),
            signed(cancelled),
            signed(expired),
            signed(failed),
            self.forgotten.as_millis(),
            self.history.map(KeptMessage::limit),
        ])?;
        Ok(())
    }

    /// Resets everything except the largest fence and the counts.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            id: self.id,
            fence: self.fence,
            counts: self.counts,
            ended: self.ended,
            recorded: self.recorded,
            history: self.history,
            is_woken: self.is_woken,
            is_changed: true,
            ..Self::default()
        };
    }

    /// Marks the row to be written at the end of the transaction.
    pub(crate) fn touch(&mut self) {
        self.is_changed = true;
    }

    /// Records an issued fence.
    pub(crate) fn raise_fence(&mut self, fence: u64) {
        self.is_changed = true;
        self.fence = self.fence.max(fence);
    }

    /// The number of tasks of the type in `state`; all ended states are counted together.
    pub(crate) fn count(&self, state: TaskState) -> u64 {
        u64::try_from(self.stored_count(state)).unwrap_or(0)
    }

    /// The number of running tasks, as a `usize`.
    pub(crate) fn running(&self) -> usize {
        usize::try_from(self.count(TaskState::Running)).unwrap_or(usize::MAX)
    }

    /// The counter as stored.
    pub(crate) fn stored_count(&self, state: TaskState) -> i64 {
        self.counts.get(counter(state)).copied().unwrap_or(0)
    }

    /// Counts tasks that came into a state, or left it.
    pub(crate) fn add(&mut self, state: TaskState, tasks: i64) {
        self.is_changed = true;
        if let Some(count) = self.counts.get_mut(counter(state)) {
            *count = count.saturating_add(tasks);
        }
        if state == TaskState::Scheduled && tasks < 0 {
            self.head = None;
        }
        if state == TaskState::Running && tasks < 0 && self.held_back {
            self.held_back = false;
            self.is_woken = true;
        }
    }

    /// The end of the pause, while paused.
    pub(crate) fn pause_at(&self, now: Timestamp) -> Option<Timestamp> {
        (self.paused_until > now).then_some(self.paused_until)
    }
}

/// The counts of ended tasks.
fn totals(row: &Row<'_>) -> rusqlite::Result<TypeTotals> {
    let mut totals = TypeTotals::default();
    for (index, total) in [
        (16, &mut totals.done),
        (17, &mut totals.dead),
        (18, &mut totals.cancelled),
        (19, &mut totals.expired),
        (20, &mut totals.failed),
    ] {
        *total = u64::try_from(optional(row, index)?).unwrap_or(0);
    }
    Ok(totals)
}

/// A number that an older process does not write.
fn optional(row: &Row<'_>, index: usize) -> rusqlite::Result<i64> {
    let number: Option<i64> = row.get(index)?;
    Ok(number.unwrap_or_default())
}

/// The limits in the row; a rate is complete or absent.
fn fleet(row: &Row<'_>) -> rusqlite::Result<FleetLimits> {
    let number = |index| -> rusqlite::Result<Option<u32>> {
        let number: Option<i64> = row.get(index)?;
        Ok(number.and_then(|number| u32::try_from(number).ok()))
    };
    let per: Option<i64> = row.get(14)?;
    let per = per.and_then(|per| u64::try_from(per).ok());
    let rate = match (number(13)?, per, number(15)?) {
        (Some(starts), Some(per), Some(burst)) => {
            let per = Duration::from_micros(per);
            Some(Rate { starts, per, burst }.clamped())
        }
        _ => None,
    };
    let concurrency = number(12)?;
    Ok(FleetLimits { concurrency, rate })
}

fn history(row: &Row<'_>) -> rusqlite::Result<Option<KeptMessage>> {
    let bytes: Option<i64> = row.get(22)?;
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    Ok(bytes.map(KeptMessage::from_limit))
}

/// The counter of a state; all ended states share one.
fn counter(state: TaskState) -> usize {
    match state {
        TaskState::Scheduled => 0,
        TaskState::Running => 1,
        TaskState::Dead => 2,
        _ => 3,
    }
}
