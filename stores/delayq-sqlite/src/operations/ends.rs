//! The queue of recorded ends: taken, removed, counted.

use delayq_core::history::{EndPosition, EndsStatus, LifeOutcome, WaitingEnd};
use delayq_core::machine::EndFacts;
use delayq_core::name::{TaskId, TaskType};
use delayq_core::task::Headers;
use delayq_core::time::Timestamp;
use rusqlite::{OptionalExtension, Row};

use crate::error::Outcome;
use crate::rows::{self, EndsChange, ROWS_BYTES, Tx, holder_of, limit_of, text};

const SELECT: &str = "SELECT ends.seq, types.name, ends.id, outcome, submitted, due, \
     ends.ended, ends.fence, ends.running, attempts, grp, project, holder, error, errors, size, message \
     FROM ends INDEXED BY ends_place JOIN types ON types.id = ends.type \
     WHERE ends.namespace = ?1 ORDER BY ends.seq";
const REMOVE: &str = "DELETE FROM ends WHERE seq = ?1 AND namespace = ?2 RETURNING bytes";
const COUNTS: &str = "SELECT waiting, bytes, lost, most FROM ends_state WHERE namespace = ?1";
const OLDEST: &str = "SELECT ended FROM ends INDEXED BY ends_place WHERE namespace = ?1 \
     ORDER BY seq LIMIT 1";

/// A row of the queue; `None` in place of the record if it is too damaged to be one.
struct StoredEnd {
    seq: i64,
    record: Option<(TaskType, EndFacts)>,
}

/// The oldest records. Those that are too damaged to be read are passed over, and removed from the
/// queue by its bound.
pub(crate) fn take(tx: &Tx<'_>, limit: usize) -> Outcome<Vec<WaitingEnd>> {
    let mut select = tx.connection.prepare_cached(SELECT)?;
    let mut rows = select.query([tx.context.namespace.as_str()])?;
    let (mut ends, mut bytes) = (Vec::new(), 0);
    while bytes < ROWS_BYTES
        && ends.len() < limit
        && let Some(row) = rows.next()?
    {
        let StoredEnd { seq, record } = read(row)?;
        if let Some((task_type, facts)) = record {
            bytes += facts.message.as_ref().map_or(0, Vec::len);
            ends.push(WaitingEnd {
                position: EndPosition::new(seq.to_string()),
                life: facts.into_life(task_type),
            });
        }
    }
    Ok(ends)
}

fn read(row: &Row<'_>) -> rusqlite::Result<StoredEnd> {
    let seq = row.get(0)?;
    let name = text(row, 1)?.unwrap_or_default();
    let id = text(row, 2)?.unwrap_or_default();
    let number: i64 = row.get(3)?;
    let outcome = u8::try_from(number).ok().and_then(LifeOutcome::from_number);
    let (Ok(task_type), Ok(id), Some(outcome)) = (TaskType::new(&name), TaskId::new(&id), outcome)
    else {
        return Ok(StoredEnd { seq, record: None });
    };
    let time =
        |column| -> rusqlite::Result<Timestamp> { Ok(Timestamp::from_millis(row.get(column)?)) };
    let number = |column| -> rusqlite::Result<u64> {
        let number: i64 = row.get(column)?;
        Ok(u64::try_from(number).unwrap_or(0))
    };
    let mut headers = Headers::new();
    for (name, column) in [("group", 10), ("project", 11)] {
        if let Some(value) = text(row, column)? {
            headers.insert(name.to_owned(), value);
        }
    }
    let fence = number(7)?;
    let holder = text(row, 12)?;
    let errors = text(row, 14)?;
    let facts = EndFacts {
        id,
        outcome,
        submitted_at: time(4)?,
        due_at: time(5)?,
        ended_at: time(6)?,
        fence,
        is_running: row.get(8)?,
        attempts: u32::try_from(number(9)?).unwrap_or(u32::MAX),
        headers,
        holder: holder.and_then(|text| holder_of(&text, fence).map(str::to_owned)),
        error: text(row, 13)?,
        errors: errors.unwrap_or_default(),
        message_bytes: number(15)?,
        message: row.get(16)?,
    };
    let record = Some((task_type, facts));
    Ok(StoredEnd { seq, record })
}

/// Removes records. Returns the number of those that were there.
pub(crate) fn remove(tx: &Tx<'_>, positions: &[EndPosition]) -> Outcome<u64> {
    let mut change = EndsChange::default();
    let mut remove = tx.connection.prepare_cached(REMOVE)?;
    for position in positions {
        let Ok(seq) = position.as_str().parse::<i64>() else {
            continue;
        };
        let key = (seq, tx.context.namespace.as_str());
        let removed: Option<i64> = remove.query_row(key, |row| row.get(0)).optional()?;
        change.waiting -= i64::from(removed.is_some());
        change.bytes -= removed.unwrap_or(0);
    }
    change.write(tx.connection, tx.context)?;
    Ok(change.waiting.unsigned_abs())
}

/// Writes the bound of the queue for all users of the file.
pub(crate) fn set_limit(tx: &Tx<'_>, bytes: u64) -> Outcome<()> {
    rows::set_limit(tx.connection, tx.context, bytes)
}

pub(crate) fn status(tx: &Tx<'_>) -> Outcome<EndsStatus> {
    let namespace = tx.context.namespace.as_str();
    let mut status = EndsStatus::default();
    let mut counts = tx.connection.prepare_cached(COUNTS)?;
    let counts = counts.query_row([namespace], |row| {
        let limit = limit_of(row.get(3)?);
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, limit])
    });
    let counts = counts.optional()?.unwrap_or([0, 0, 0, limit_of(None)]);
    let counts = counts.map(|count: i64| u64::try_from(count).unwrap_or(0));
    [status.waiting, status.bytes, status.lost, status.limit] = counts;
    let mut oldest = tx.connection.prepare_cached(OLDEST)?;
    let oldest = oldest.query_row([namespace], |row| row.get(0)).optional()?;
    status.oldest = oldest.map(Timestamp::from_millis);
    Ok(status)
}
