//! Row of a type: its counts, its pause, its limits, its largest fence.

use delayq_core::error::Error;
use delayq_core::machine::MAX_FENCE;
use delayq_core::name::TaskType;
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;
use rusqlite::{Connection, Row};

use super::number::signed;
use crate::error::Outcome;

const UPDATE_TYPE: &str = "UPDATE types SET listed = ?2, paused_until = ?3, fence = ?4, \
     scheduled = ?5, running = ?6, dead = ?7, ended = ?8, tat = ?9, held_back = ?10, \
     max_pending = ?11, refused = ?12 WHERE id = ?1";

/// The row of a type, written back once at the end of the transaction.
#[derive(Debug, Default)]
pub(crate) struct TypeRow {
    pub(crate) id: i64,
    pub(crate) listed: bool,
    pub(crate) paused_until: Timestamp,
    /// The largest fence given so far.
    pub(crate) fence: u64,
    pub(crate) limits: TypeLimits,
    /// Whether handlers have to claim earlier than they planned.
    pub(crate) is_woken: bool,
    /// How many tasks ended in this transaction: as many older ones may have to be forgotten.
    pub(crate) ended: usize,
    /// Tasks that are scheduled, running, dead, ended. Damage may have made a count negative.
    counts: [i64; 4],
    head: Head,
    is_changed: bool,
    damage: Option<Damage>,
}

/// What limits the submits and starts of a type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TypeLimits {
    /// See [`RateLimiter`](delayq_core::machine::RateLimiter); microseconds.
    pub(crate) tat: i64,
    /// A claim left due tasks behind because no slot was free: freeing one wakes the handlers.
    pub(crate) held_back: bool,
    /// Most scheduled tasks.
    pub(crate) max_pending: Option<u64>,
    /// Tasks refused by it.
    pub(crate) refused: u64,
}

/// The first due time of a type, as far as this transaction has read it.
#[derive(Clone, Copy, Debug, Default)]
enum Head {
    /// Not read yet, or a scheduled task has left since.
    #[default]
    Unread,
    Read(Option<Timestamp>),
}

/// A column with a value that no operation writes.
#[derive(Clone, Copy, Debug)]
struct Damage {
    column: &'static str,
    value: i64,
}

impl TypeRow {
    /// A row that was made just now.
    pub(super) fn new(id: i64) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let max_pending: Option<i64> = row.get(10)?;
        let count = i64::cast_unsigned;
        Ok(Self {
            id: row.get(0)?,
            listed: row.get(1)?,
            paused_until: Timestamp::from_millis(row.get(2)?),
            fence: count(row.get(3)?),
            counts: [row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?],
            limits: TypeLimits {
                tat: row.get(8)?,
                held_back: row.get(9)?,
                max_pending: max_pending.map(count),
                refused: count(row.get(11)?),
            },
            damage: Self::damage(row)?,
            ..Self::default()
        })
    }

    /// The first column with a value that is never written.
    fn damage(row: &Row<'_>) -> rusqlite::Result<Option<Damage>> {
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
        ] {
            let value: Option<i64> = row.get(index)?;
            if let Some(value) = value.filter(|value| !(0..=largest).contains(value)) {
                return Ok(Some(Damage { column, value }));
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
                self.id, damage.column
            ),
            format!(
                "{} is no value of it: run an audit with repair, or restore a backup",
                damage.value
            ),
        )
        .into())
    }

    /// What is wrong with the row, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        let Damage { column, value } = self.damage?;
        Some(format!("the type's {column} is {value}"))
    }

    /// Puts values that are safe into the place of damaged ones: no pause, no bound, `fence` as the
    /// largest one. The audit counts the tasks afterwards.
    pub(crate) fn mend(&mut self, fence: u64) {
        self.is_changed = true;
        self.damage = None;
        if self.fence > MAX_FENCE {
            self.fence = fence;
        }
        self.counts = self.counts.map(|count| count.max(0));
        self.limits.tat = self.limits.tat.max(0);
        self.limits.max_pending = self
            .limits
            .max_pending
            .filter(|most| i64::try_from(*most).is_ok());
        self.limits.refused = i64::try_from(self.limits.refused).map_or(0, i64::cast_unsigned);
    }

    pub(super) fn write(&self, connection: &Connection) -> Outcome<()> {
        if !self.is_changed {
            return Ok(());
        }
        let [scheduled, running, dead, ended] = self.counts;
        connection.prepare_cached(UPDATE_TYPE)?.execute((
            self.id,
            self.listed,
            self.paused_until.as_millis(),
            signed(self.fence),
            scheduled,
            running,
            dead,
            ended,
            self.limits.tat,
            self.limits.held_back,
            self.limits.max_pending.map(signed),
            signed(self.limits.refused),
        ))?;
        Ok(())
    }

    /// Has it written at the end of the transaction.
    pub(crate) fn touch(&mut self) {
        self.is_changed = true;
    }

    /// Notes a fence that was given.
    pub(crate) fn raise_fence(&mut self, fence: u64) {
        self.is_changed = true;
        self.fence = self.fence.max(fence);
    }

    /// How many tasks of the type are in `state`; all ended states are counted together.
    pub(crate) fn count(&self, state: TaskState) -> u64 {
        u64::try_from(self.stored_count(state)).unwrap_or(0)
    }

    /// The same as a number of tasks in memory.
    pub(crate) fn running(&self) -> usize {
        usize::try_from(self.count(TaskState::Running)).unwrap_or(usize::MAX)
    }

    /// The counter as stored.
    pub(crate) fn stored_count(&self, state: TaskState) -> i64 {
        let [scheduled, running, dead, ended] = self.counts;
        match state {
            TaskState::Scheduled => scheduled,
            TaskState::Running => running,
            TaskState::Dead => dead,
            _ => ended,
        }
    }

    /// Counts tasks that came into a state, or left it.
    pub(crate) fn add(&mut self, state: TaskState, tasks: i64) {
        self.is_changed = true;
        let [scheduled, running, dead, ended] = &mut self.counts;
        let count = match state {
            TaskState::Scheduled => scheduled,
            TaskState::Running => running,
            TaskState::Dead => dead,
            _ => ended,
        };
        *count = count.saturating_add(tasks);
        if state == TaskState::Scheduled && tasks < 0 {
            self.head = Head::Unread;
        }
        if state == TaskState::Running && tasks < 0 && self.limits.held_back {
            self.limits.held_back = false;
            self.is_woken = true;
        }
    }

    /// Whether the first due time has to be read before a task is scheduled.
    pub(super) fn needs_head(&self) -> bool {
        matches!(self.head, Head::Unread)
    }

    /// Notes the first due time.
    pub(super) fn set_head(&mut self, first: Option<Timestamp>) {
        self.head = Head::Read(first);
    }

    /// Notes that a task was scheduled after the head was read: handlers are woken if it is the
    /// first.
    pub(super) fn lower_head(&mut self, due_at: Timestamp) {
        let is_later = matches!(self.head, Head::Read(Some(head)) if head <= due_at);
        if !is_later {
            self.is_woken = true;
            self.head = Head::Read(Some(due_at));
        }
    }

    /// Notes that the first task may have moved to a later time.
    pub(crate) fn forget_head(&mut self) {
        self.head = Head::Unread;
    }

    /// The end of the pause, while paused.
    pub(crate) fn pause_at(&self, now: Timestamp) -> Option<Timestamp> {
        (self.paused_until > now).then_some(self.paused_until)
    }
}
