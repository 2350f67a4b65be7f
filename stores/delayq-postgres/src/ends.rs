//! The queue of recorded ends.

use async_trait::async_trait;
use delayq_core::Result;
use delayq_core::history::{
    DEFAULT_HISTORY_BUFFER, EndPosition, Ends, EndsStatus, LifeOutcome, MAX_ENDS, WaitingEnd,
};
use delayq_core::machine::EndFacts;
use delayq_core::name::{TaskId, TaskType};
use delayq_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Session, Values};
use crate::error::Outcome;
use crate::row::{read_headers, signed, unsigned};
use crate::store::PostgresStore;

const TAKE: &str = "SELECT o_seq, o_type, (o_end).id, (o_end).outcome, (o_end).submitted, \
    (o_end).due, (o_end).ended, (o_end).fence, (o_end).is_running, (o_end).attempts, \
    (o_end).headers, (o_end).holder, (o_end).error, (o_end).errors, (o_end).size, \
    (o_end).message FROM {s}.ends_v1($1, $2, $3)";
const REMOVE: &str = "SELECT {s}.remove_ends_v1($1, $2)";
const STATUS: &str = "SELECT o_waiting, o_bytes, o_lost, o_most, o_oldest \
    FROM {s}.ends_status_v1($1, $2)";

/// A record; `None` if a name in it is none.
fn read(row: &Row) -> Outcome<Option<WaitingEnd>> {
    let (seq, name, id): (i64, String, String) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let outcome: i16 = row.try_get(3)?;
    let outcome = u8::try_from(outcome)
        .ok()
        .and_then(LifeOutcome::from_number);
    let (Ok(task_type), Ok(id), Some(outcome)) = (TaskType::new(&name), TaskId::new(&id), outcome)
    else {
        return Ok(None);
    };
    let time =
        |column: usize| -> Outcome<Timestamp> { Ok(Timestamp::from_millis(row.try_get(column)?)) };
    let headers: Option<String> = row.try_get(10)?;
    let error: Option<Vec<u8>> = row.try_get(12)?;
    let errors: Option<String> = row.try_get(13)?;
    let attempts: i32 = row.try_get(9)?;
    let size: i32 = row.try_get(14)?;
    let facts = EndFacts {
        id,
        outcome,
        submitted_at: time(4)?,
        due_at: time(5)?,
        ended_at: time(6)?,
        fence: unsigned(row.try_get(7)?),
        is_running: row.try_get(8)?,
        attempts: attempts.unsigned_abs(),
        headers: read_headers(headers.as_deref()).unwrap_or_default(),
        holder: row.try_get(11)?,
        error: error.map(|text| String::from_utf8_lossy(&text).into_owned()),
        errors: errors.unwrap_or_default(),
        message_bytes: u64::from(size.unsigned_abs()),
        message: row.try_get(15)?,
    };
    Ok(Some(WaitingEnd {
        position: EndPosition::new(seq.to_string()),
        life: facts.into_life(task_type),
    }))
}

#[async_trait]
impl Ends for PostgresStore {
    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        let (sql, namespace) = (self.sql(TAKE), self.namespace.to_string());
        let limit = i32::try_from(limit.min(MAX_ENDS)).unwrap_or(i32::MAX);
        let from = self.ends_floor.get();
        let call = self.connections.call(move |session: &mut Session| {
            let (sql, namespace) = (sql.clone(), namespace.clone());
            Box::pin(async move {
                let values: Values<'_> = &[
                    (&namespace, Type::TEXT),
                    (&limit, Type::INT4),
                    (&from, Type::INT8),
                ];
                let rows = session.ask(&sql, values).await?;
                let first: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
                let ends = rows.iter().map(read).filter_map(Outcome::transpose);
                Ok((first, ends.collect::<Outcome<Vec<_>>>()?))
            })
        });
        let (first, ends) = call.await?;
        if let Some(first) = first {
            self.ends_floor.note(first);
        }
        Ok(ends)
    }

    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        let (sql, namespace) = (self.sql(REMOVE), self.namespace.to_string());
        let numbers = positions.iter().map(|position| position.as_str().parse());
        let numbers: Vec<i64> = numbers.filter_map(std::result::Result::ok).collect();
        let call = self.connections.call(move |session: &mut Session| {
            let (sql, namespace, numbers) = (sql.clone(), namespace.clone(), numbers.clone());
            Box::pin(async move {
                let values: Values<'_> = &[(&namespace, Type::TEXT), (&numbers, Type::INT8_ARRAY)];
                let rows = session.write(&sql, values).await?;
                let removed: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
                Ok(unsigned(removed))
            })
        });
        call.await
    }

    async fn ends_status(&self) -> Result<EndsStatus> {
        let (sql, namespace) = (self.sql(STATUS), self.namespace.to_string());
        let from = self.ends_floor.get();
        let call = self.connections.call(move |session: &mut Session| {
            let (sql, namespace) = (sql.clone(), namespace.clone());
            Box::pin(async move {
                let values: Values<'_> = &[(&namespace, Type::TEXT), (&from, Type::INT8)];
                let rows = session.ask(&sql, values).await?;
                let mut status = EndsStatus::default();
                if let Some(row) = rows.first() {
                    status.waiting = unsigned(row.try_get(0)?);
                    status.bytes = unsigned(row.try_get(1)?);
                    status.lost = unsigned(row.try_get(2)?);
                    let most: Option<i64> = row.try_get(3)?;
                    status.limit = unsigned(most.or(Some(signed(DEFAULT_HISTORY_BUFFER))));
                    let oldest: Option<i64> = row.try_get(4)?;
                    status.oldest = oldest.map(Timestamp::from_millis);
                }
                Ok(status)
            })
        });
        call.await
    }
}
