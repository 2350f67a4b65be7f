//! What edges see: one transaction, and in it the types that they touch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row};

use super::error::Outcome;
use crate::name::{Namespace, TaskType};
use crate::state::TaskState;
use crate::time::{Clock, Moment, Timestamp};

/// What all edges of a store have in common.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// The store's name in logs and errors.
    pub(super) store: String,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) namespace: Namespace,
    pub(super) retention: Duration,
}

/// One transaction: the edges of a group run in it one after the other.
#[derive(Debug)]
pub(super) struct Tx<'a> {
    pub(super) connection: &'a Connection,
    pub(super) world: &'a World,
    rows: HashMap<TaskType, TypeRow>,
}

/// One type within a transaction: what every edge is written on.
#[derive(Debug)]
pub(super) struct Bucket<'a> {
    connection: &'a Connection,
    pub(super) row: &'a mut TypeRow,
    /// The time of this edge.
    pub(super) now: Timestamp,
    /// The same, with parts of a millisecond.
    pub(super) moment: Moment,
    pub(super) retention: Duration,
}

/// The row of a type, written back once at the end of the transaction.
#[derive(Debug, Default)]
pub(super) struct TypeRow {
    pub(super) id: i64,
    pub(super) listed: bool,
    pub(super) paused_until: Timestamp,
    /// The largest fence given so far.
    pub(super) fence: u64,
    pub(super) bounds: Bounds,
    counts: [i64; 4],
    head: Head,
    is_changed: bool,
    /// Whether handlers have to look earlier than they planned.
    pub(super) is_woken: bool,
    /// How many tasks ended in this transaction: as many older ones may have to be forgotten.
    pub(super) ended: usize,
}

/// What limits the starts of a type.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// See [`Pace`](crate::store::pace::Pace); microseconds.
    pub(super) tat: i64,
    /// A claim left due tasks behind as no place was free: whoever frees one wakes the handlers.
    pub(super) held_back: bool,
    /// Most scheduled tasks.
    pub(super) max_pending: Option<u64>,
    /// Tasks refused by it.
    pub(super) refused: u64,
}

/// The first due time of a type, as far as this transaction knows it.
#[derive(Clone, Copy, Debug, Default)]
enum Head {
    /// Not read yet, or a scheduled task has left since.
    #[default]
    Unknown,
    Known(Option<Timestamp>),
}

const SELECT_TYPE: &str = "SELECT id, listed, paused_until, fence, scheduled, running, dead, ended, \
     tat, held_back, max_pending, refused FROM types WHERE namespace = ?1 AND name = ?2";
const INSERT_TYPE: &str = "INSERT INTO types (namespace, name) VALUES (?1, ?2)";
const UPDATE_TYPE: &str = "UPDATE types SET listed = ?2, paused_until = ?3, fence = ?4, \
     scheduled = ?5, running = ?6, dead = ?7, ended = ?8, tat = ?9, held_back = ?10, max_pending = ?11, \
     refused = ?12 WHERE id = ?1";
const SELECT_FIRST: &str = "SELECT at FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = ?2 ORDER BY at, id LIMIT 1";

impl<'a> Tx<'a> {
    pub(super) fn new(connection: &'a Connection, world: &'a World) -> Self {
        Self {
            connection,
            world,
            rows: HashMap::new(),
        }
    }

    /// The time on the store's clock.
    pub(super) fn moment(&self) -> Moment {
        self.world.clock.moment()
    }

    /// The same, in whole milliseconds.
    pub(super) fn now(&self) -> Timestamp {
        self.moment().now
    }

    /// The type, made if it is new.
    pub(super) fn bucket(&mut self, task_type: &TaskType) -> Outcome<Bucket<'_>> {
        if self.known(task_type)?.is_none() {
            let key = (self.world.namespace.as_str(), task_type.as_str());
            self.connection.prepare_cached(INSERT_TYPE)?.execute(key)?;
            let id = self.connection.last_insert_rowid();
            let row = TypeRow {
                id,
                ..TypeRow::default()
            };
            self.rows.insert(task_type.clone(), row);
        }
        let bucket = self.known(task_type)?;
        Ok(bucket.expect("the row was found or made just before"))
    }

    /// The type, if anything is known of it.
    pub(super) fn known(&mut self, task_type: &TaskType) -> Outcome<Option<Bucket<'_>>> {
        let moment = self.moment();
        let row = match self.rows.entry(task_type.clone()) {
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(place) => {
                let key = (self.world.namespace.as_str(), task_type.as_str());
                let mut select = self.connection.prepare_cached(SELECT_TYPE)?;
                let Some(row) = select.query_row(key, TypeRow::read).optional()? else {
                    return Ok(None);
                };
                place.insert(row)
            }
        };
        Ok(Some(Bucket {
            connection: self.connection,
            row,
            now: moment.now,
            moment,
            retention: self.world.retention,
        }))
    }

    /// Writes the types back; returns those whose handlers have to be woken after the commit.
    pub(super) fn finish(mut self) -> Outcome<Vec<TaskType>> {
        let mut woken = Vec::new();
        let moment = self.moment();
        for (task_type, row) in &mut self.rows {
            let mut bucket = Bucket {
                connection: self.connection,
                now: moment.now,
                moment,
                retention: self.world.retention,
                row,
            };
            bucket.forget_some()?;
            bucket.row.write(self.connection)?;
            if bucket.row.is_woken {
                woken.push(task_type.clone());
            }
        }
        Ok(woken)
    }
}

impl TypeRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let fence: i64 = row.get(3)?;
        Ok(Self {
            id: row.get(0)?,
            listed: row.get(1)?,
            paused_until: Timestamp::from_millis(row.get(2)?),
            fence: u64::try_from(fence).unwrap_or(0),
            counts: [row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?],
            bounds: Bounds {
                tat: row.get(8)?,
                held_back: row.get(9)?,
                max_pending: row.get::<_, Option<i64>>(10)?.map(unsigned),
                refused: unsigned(row.get(11)?),
            },
            ..Self::default()
        })
    }

    fn write(&self, connection: &Connection) -> Outcome<()> {
        if !self.is_changed {
            return Ok(());
        }
        let [scheduled, running, dead, ended] = self.counts;
        let paused_until = self.paused_until.as_millis();
        connection.prepare_cached(UPDATE_TYPE)?.execute((
            self.id,
            self.listed,
            paused_until,
            sql_fence(self.fence),
            scheduled,
            running,
            dead,
            ended,
            self.bounds.tat,
            self.bounds.held_back,
            self.bounds.max_pending.map(signed),
            signed(self.bounds.refused),
        ))?;
        Ok(())
    }

    /// Has it written at the end of the transaction.
    pub(super) fn touch(&mut self) {
        self.is_changed = true;
    }

    /// How many tasks of the type are in `state`; all ended states are counted together.
    pub(super) fn count(&self, state: TaskState) -> u64 {
        u64::try_from(self.counted(state)).unwrap_or(0)
    }

    /// The counter as stored: damage may have made it negative.
    pub(super) fn counted(&self, state: TaskState) -> i64 {
        let [scheduled, running, dead, ended] = self.counts;
        match state {
            TaskState::Scheduled => scheduled,
            TaskState::Running => running,
            TaskState::Dead => dead,
            TaskState::Done | TaskState::Cancelled | TaskState::Expired => ended,
        }
    }

    /// Counts tasks that came into a state, or left it.
    pub(super) fn add(&mut self, state: TaskState, tasks: i64) {
        self.is_changed = true;
        let [scheduled, running, dead, ended] = &mut self.counts;
        let count = match state {
            TaskState::Scheduled => scheduled,
            TaskState::Running => running,
            TaskState::Dead => dead,
            TaskState::Done | TaskState::Cancelled | TaskState::Expired => ended,
        };
        *count = count.saturating_add(tasks);
        if state == TaskState::Scheduled && tasks < 0 {
            self.head = Head::Unknown;
        }
        if state == TaskState::Running && tasks < 0 && self.bounds.held_back {
            self.bounds.held_back = false;
            self.is_woken = true;
        }
    }

    /// Notes that a task was scheduled after [`Bucket::see_head`]: handlers are woken if it is the first.
    pub(super) fn lower_head(&mut self, due_at: Timestamp) {
        let is_later = matches!(self.head, Head::Known(Some(head)) if head <= due_at);
        if !is_later {
            self.is_woken = true;
            self.head = Head::Known(Some(due_at));
        }
    }

    /// Notes that the first task may have moved to a later time.
    pub(super) fn forget_head(&mut self) {
        self.head = Head::Unknown;
    }

    /// The end of the pause, while paused.
    pub(super) fn pause_at(&self, now: Timestamp) -> Option<Timestamp> {
        (self.paused_until > now).then_some(self.paused_until)
    }
}

impl<'a> Bucket<'a> {
    /// A statement, prepared once per connection.
    pub(super) fn sql(&self, sql: &str) -> Outcome<CachedStatement<'a>> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// Runs a changing statement; returns how many rows it changed.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> Outcome<usize> {
        Ok(self.sql(sql)?.execute(params)?)
    }

    /// The time of the first one in `state`.
    pub(super) fn first(&self, state: TaskState) -> Outcome<Option<Timestamp>> {
        let key = (self.row.id, code(state));
        let mut select = self.sql(SELECT_FIRST)?;
        let at = select.query_row(key, |row| row.get(0)).optional()?;
        Ok(at.map(Timestamp::from_millis))
    }

    /// Looks at the first due time before a task is scheduled, so that it is known to come sooner.
    pub(super) fn see_head(&mut self) -> Outcome<()> {
        if matches!(self.row.head, Head::Unknown) {
            self.row.head = Head::Known(self.first(TaskState::Scheduled)?);
        }
        Ok(())
    }

    /// The number of the task inserted last.
    pub(super) fn last_seq(&self) -> i64 {
        self.connection.last_insert_rowid()
    }
}

/// How a state is stored. Never changed: files hold these numbers.
pub(super) fn code(state: TaskState) -> i64 {
    match state {
        TaskState::Scheduled => 0,
        TaskState::Running => 1,
        TaskState::Dead => 2,
        TaskState::Done => 3,
        TaskState::Cancelled => 4,
        TaskState::Expired => 5,
    }
}

/// The state that `code` stands for.
pub(super) fn state(code: i64) -> Option<TaskState> {
    Some(match code {
        0 => TaskState::Scheduled,
        1 => TaskState::Running,
        2 => TaskState::Dead,
        3 => TaskState::Done,
        4 => TaskState::Cancelled,
        5 => TaskState::Expired,
        _ => return None,
    })
}

/// A count as a parameter.
pub(super) fn sql_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A number as a parameter.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number as it is stored: damage may have made it negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A fence as a parameter: fences stay below 2^53.
pub(super) fn sql_fence(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(i64::MAX)
}
