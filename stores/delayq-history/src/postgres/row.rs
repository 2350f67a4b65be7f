//! Rows of lives.

use delayq_core::history::{Life, LifeOutcome};
use delayq_core::{Namespace, TaskId, TaskType, Timestamp};
use delayq_postgres::{DbCell, DbValue};

use crate::page::{FoundLife, HistoryCursor};

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A text as a database takes it: without zero characters.
fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The values of [`ADD`](super::sql::ADD).
pub(super) fn columns(namespace: &Namespace, lives: &[Life]) -> Vec<DbValue> {
    let ints = |of: fn(&Life) -> Option<i64>| DbValue::Ints(lives.iter().map(of).collect());
    let texts = |of: fn(&Life) -> Option<&str>| {
        let texts = lives.iter().map(|life| of(life).map(clean));
        DbValue::Texts(texts.collect())
    };
    let errors = lives.iter().map(Life::errors_text);
    vec![
        DbValue::Text(namespace.to_string()),
        texts(|life| Some(life.task_type.as_str())),
        ints(|life| Some(life.submitted_at.as_millis())),
        ints(|life| Some(life.due_at.as_millis())),
        ints(|life| life.started_at.map(Timestamp::as_millis)),
        ints(|life| Some(life.ended_at.as_millis())),
        ints(|life| life.run_ms.map(signed)),
        ints(Life::late_ms),
        ints(|life| Some(signed(life.fence))),
        ints(|life| Some(signed(life.message_bytes))),
        ints(|life| Some(i64::from(life.attempts.min(i32::MAX.unsigned_abs())))),
        ints(|life| Some(i64::from(life.outcome.number()))),
        texts(|life| Some(life.id.as_str())),
        texts(|life| life.group.as_deref()),
        texts(|life| life.project.as_deref()),
        texts(|life| life.holder.as_deref()),
        texts(|life| life.error.as_deref()),
        DbValue::Texts(errors.collect()),
        DbValue::Blobs(lives.iter().map(|life| life.message.clone()).collect()),
    ]
}

/// The number in a cell.
pub(super) fn int(cell: Option<&DbCell>) -> Option<i64> {
    match cell {
        Some(DbCell::Int(number)) => Some(*number),
        _ => None,
    }
}

/// The text in a cell.
pub(super) fn text(cell: &DbCell) -> Option<String> {
    match cell {
        DbCell::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// A row of [`SEARCH`](super::sql::SEARCH); `None` for one of another form. The life is `None` if a
/// name in it is none.
pub(super) fn read(row: &[DbCell]) -> Option<FoundLife> {
    let [
        seq,
        name,
        id,
        outcome,
        submitted,
        due,
        started,
        ended,
        run,
        fence,
        attempts,
        group,
        project,
        holder,
        error,
        errors,
        size,
        message,
        cut,
    ] = row
    else {
        return None;
    };
    let time = |cell| int(Some(cell)).map(Timestamp::from_millis);
    let count = |cell| int(Some(cell)).map(|number| u64::try_from(number).unwrap_or(0));
    let ended_at = time(ended)?;
    let cursor = HistoryCursor {
        ended_at,
        number: int(Some(seq))?,
    };
    let is_cut = int(Some(cut)) == Some(1);
    let outcome = int(Some(outcome)).and_then(|number| u8::try_from(number).ok());
    let outcome = outcome.and_then(LifeOutcome::from_number);
    let names = (TaskType::new(text(name)?), TaskId::new(text(id)?), outcome);
    let (Ok(task_type), Ok(id), Some(outcome)) = names else {
        return Some(FoundLife {
            cursor,
            life: None,
            is_cut,
        });
    };
    let mut life = Life::new(task_type, id, outcome, ended_at);
    life.submitted_at = time(submitted)?;
    life.due_at = time(due)?;
    life.started_at = time(started);
    life.run_ms = count(run);
    life.fence = count(fence)?;
    life.attempts = u32::try_from(count(attempts)?).unwrap_or(u32::MAX);
    (life.group, life.project) = (text(group), text(project));
    (life.holder, life.error) = (text(holder), text(error));
    life.errors = Life::read_errors(text(errors).as_deref());
    life.message_bytes = count(size)?;
    life.message = match message {
        DbCell::Blob(bytes) => Some(bytes.clone()),
        _ => None,
    };
    Some(FoundLife {
        cursor,
        life: Some(life),
        is_cut,
    })
}
