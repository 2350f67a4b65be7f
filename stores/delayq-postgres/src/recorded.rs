//! Records of tasks that end by a decision of the store, written in its transaction.

use delayq_core::history::{KeptMessage, LifeOutcome};
use delayq_core::machine::Bookkeeping;
use delayq_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::connection::{Session, Values};
use crate::error::Outcome;
use crate::row::{TaskRow, signed};
use crate::statements::Statements;

const RECORD: &str = "WITH added AS (INSERT INTO {s}.ends (namespace, type, id, outcome, submitted, due, ended, \
    fence, is_running, attempts, headers, holder, error, errors, size, message, bytes) \
    SELECT $1, $2, u.* FROM unnest($3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
    $17) AS u(id, outcome, submitted, due, ended, fence, is_running, attempts, headers, \
    holder, error, errors, size, message, bytes) RETURNING bytes) \
    INSERT INTO {s}.ends_ledger (namespace, waiting, bytes) \
    SELECT $1, count(*), sum(bytes) FROM added HAVING count(*) > 0";

/// The bytes of a record besides its texts and its message.
const FIXED_BYTES: usize = 64;

/// What the record of an end has beside the row of its task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedEnd {
    pub(crate) outcome: LifeOutcome,
    pub(crate) at: Timestamp,
    /// The fence of its last lock; 0 for none.
    pub(crate) fence: u64,
    pub(crate) is_running: bool,
    pub(crate) attempts: u32,
    pub(crate) due: Timestamp,
}

impl RecordedEnd {
    /// The death of a task. `before` is its bookkeeping until then.
    pub(crate) fn death(before: &Bookkeeping, dead: &Bookkeeping) -> Self {
        Self {
            outcome: LifeOutcome::Dead,
            at: dead.at,
            fence: before.fence.max(dead.settled.fence),
            is_running: before.state == delayq_core::TaskState::Running,
            attempts: dead.attempt(),
            due: before.asked_due,
        }
    }

    /// The removal of a dead task by an operator.
    pub(crate) fn removal(dead: &Bookkeeping, now: Timestamp) -> Self {
        Self {
            outcome: LifeOutcome::Discarded,
            at: now,
            fence: dead.settled.fence,
            is_running: false,
            attempts: dead.attempt(),
            due: dead.asked_due,
        }
    }
}

/// Records to write, as the arrays of one statement.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    ids: Vec<String>,
    outcomes: Vec<i16>,
    submitted: Vec<i64>,
    due: Vec<i64>,
    ended: Vec<i64>,
    fences: Vec<i64>,
    running: Vec<bool>,
    attempts: Vec<i32>,
    headers: Vec<Option<String>>,
    holders: Vec<Option<String>>,
    last_errors: Vec<Option<Vec<u8>>>,
    errors: Vec<Option<String>>,
    sizes: Vec<i32>,
    messages: Vec<Option<Vec<u8>>>,
    bytes: Vec<i32>,
}

impl Recorded {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Notes the end of a task, as its row is now.
    pub(crate) fn push(&mut self, row: &TaskRow, end: RecordedEnd, kept: KeptMessage) {
        let small = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let message = kept.of(&row.message);
        let texts = [&row.headers, &row.holder, &row.last_error];
        let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
        let parts = texts + row.errors.len() + message.as_ref().map_or(0, Vec::len);
        self.bytes.push(small(FIXED_BYTES + row.id.len() + parts));
        self.ids.push(row.id.clone());
        self.outcomes.push(i16::from(end.outcome.number()));
        self.submitted.push(row.submitted.as_millis());
        self.due.push(end.due.as_millis());
        self.ended.push(end.at.as_millis());
        self.fences.push(signed(end.fence));
        self.running.push(end.is_running);
        self.attempts
            .push(i32::try_from(end.attempts).unwrap_or(i32::MAX));
        self.headers.push(row.headers.clone());
        self.holders.push(row.holder.clone());
        let error = row.last_error.as_ref();
        self.last_errors
            .push(error.map(|error| error.as_bytes().to_vec()));
        self.errors
            .push((!row.errors.is_empty()).then(|| row.errors.clone()));
        self.sizes.push(small(row.message.len()));
        self.messages.push(message);
    }

    pub(crate) async fn write(
        &self,
        session: &mut Session,
        sql: &Statements,
        namespace: &str,
        type_id: i32,
    ) -> Outcome<()> {
        let values: Values<'_> = &[
            (&namespace, Type::TEXT),
            (&type_id, Type::INT4),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.outcomes, Type::INT2_ARRAY),
            (&self.submitted, Type::INT8_ARRAY),
            (&self.due, Type::INT8_ARRAY),
            (&self.ended, Type::INT8_ARRAY),
            (&self.fences, Type::INT8_ARRAY),
            (&self.running, Type::BOOL_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
            (&self.headers, Type::TEXT_ARRAY),
            (&self.holders, Type::TEXT_ARRAY),
            (&self.last_errors, Type::BYTEA_ARRAY),
            (&self.errors, Type::TEXT_ARRAY),
            (&self.sizes, Type::INT4_ARRAY),
            (&self.messages, Type::BYTEA_ARRAY),
            (&self.bytes, Type::INT4_ARRAY),
        ];
        session.ask(&sql.sql(RECORD), values).await?;
        Ok(())
    }
}
