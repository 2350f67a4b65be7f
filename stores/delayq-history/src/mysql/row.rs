//! Rows of lives.

use std::collections::BTreeMap;

use delayq_core::history::{Life, LifeOutcome};
use delayq_core::{TaskId, TaskType, Timestamp};
use mysql_async::Value;

use super::cell::{blob, int, text};
use crate::page::{FoundLife, HistoryCursor};

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The values of a [`ROW`](super::sql::ROW).
pub(super) fn values(number: i64, life: &Life) -> Vec<Value> {
    let ms = |time: Timestamp| Value::Int(time.as_millis());
    let number_or_null = |number: Option<i64>| number.map_or(Value::NULL, Value::Int);
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.to_vec());
    let text = |text: Option<&String>| text.map_or(Value::NULL, |text| bytes(text.as_bytes()));
    vec![
        Value::Int(number),
        ms(life.ended_at),
        ms(life.submitted_at),
        ms(life.due_at),
        number_or_null(life.started_at.map(Timestamp::as_millis)),
        number_or_null(life.run_ms.map(signed)),
        number_or_null(life.late_ms()),
        Value::Int(signed(life.fence)),
        Value::Int(signed(life.message_bytes)),
        Value::Int(i64::from(life.attempts.min(i32::MAX.unsigned_abs()))),
        Value::Int(i64::from(life.outcome.number())),
        bytes(life.id.as_str().as_bytes()),
        text(life.group.as_ref()),
        text(life.project.as_ref()),
        text(life.holder.as_ref()),
        text(life.error.as_ref()),
        text(life.errors_text().as_ref()),
        life.message.as_deref().map_or(Value::NULL, bytes),
    ]
}

/// A row of a search, with the names of types; `None` for one of another form. The life is `None`
/// if a name in it is none.
pub(super) fn read(row: &[Value], types: &BTreeMap<i64, String>) -> Option<FoundLife> {
    let [
        seq,
        number,
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
    let time = |value| int(value).map(Timestamp::from_millis);
    let count = |value| int(value).map(|number| u64::try_from(number).unwrap_or(0));
    let ended_at = time(ended)?;
    let cursor = HistoryCursor {
        ended_at,
        number: int(seq)?,
    };
    let is_cut = int(cut) == Some(1);
    let outcome = int(outcome).and_then(|number| u8::try_from(number).ok());
    let outcome = outcome.and_then(LifeOutcome::from_number);
    let name = int(number).and_then(|number| types.get(&number));
    let names = (
        TaskType::new(name.map_or("", String::as_str)),
        TaskId::new(text(id).unwrap_or_default()),
        outcome,
    );
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
    life.message = blob(message);
    Some(FoundLife {
        cursor,
        life: Some(life),
        is_cut,
    })
}
