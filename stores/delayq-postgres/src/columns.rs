//! Rows of tasks as arrays, for one statement that writes them all.

use delayq_core::machine::Settled;
use delayq_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::connection::{Session, Values};
use crate::error::Outcome;
use crate::row::{ALONE, CANCEL_REQUESTED, HAS_FOLLOW_UP, Status, TaskRow, names_text, signed};
use crate::statements::Statements;

const WRITE: &str = "SELECT {s}.write_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
    $14, $15, $16, $17, $18, $19)";
pub(crate) fn settled_by(settled: Settled) -> Option<i16> {
    settled.by.map(|by| i16::from(by.number()))
}

/// Rows as arrays.
#[derive(Default)]
pub(crate) struct Columns<'a> {
    ids: Vec<&'a str>,
    states: Vec<i16>,
    flags: Vec<i16>,
    at: Vec<i64>,
    due: Vec<Option<i64>>,
    delays: Vec<Option<i64>>,
    fences: Vec<Option<i64>>,
    settled: Vec<Option<i64>>,
    settled_by: Vec<Option<i16>>,
    failures: Vec<i32>,
    lock_expiries: Vec<i32>,
    releases: Vec<i32>,
    requeues: Vec<i32>,
    holders: Vec<Option<&'a str>>,
    succeeded: Vec<Option<String>>,
    errors: Vec<Option<String>>,
    last_errors: Vec<Option<&'a [u8]>>,
    notes: Vec<Option<&'a [u8]>>,
}

impl<'a> Columns<'a> {
    /// The last values of each row.
    pub(crate) fn of(rows: &'a [TaskRow]) -> Self {
        let mut columns = Self::default();
        let mut seen = std::collections::HashSet::new();
        for row in rows.iter().rev() {
            if seen.insert(row.id.as_str()) {
                columns.add(row);
            }
        }
        columns
    }

    fn add(&mut self, row: &'a TaskRow) {
        let small = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let kept = |fence: u64| (fence > 0).then(|| signed(fence));
        self.ids.push(&row.id);
        self.states.push(row.state_code);
        let (mut flags, mut counts) = (row.flags & HAS_FOLLOW_UP, [0; 4]);
        let (at, mut due, mut delay, mut fence, settled) = match &row.status {
            Status::Live(task) => {
                flags |= if task.cancel_requested {
                    CANCEL_REQUESTED
                } else {
                    0
                };
                flags |= if task.is_alone { ALONE } else { 0 };
                counts = [
                    task.failures,
                    task.lock_expiries,
                    task.releases,
                    task.requeues,
                ];
                let due = Some(task.asked_due.as_millis());
                (task.at, due, task.delay_ms, kept(task.fence), task.settled)
            }
            Status::Ended(ended) => {
                counts[0] = ended.attempt;
                (ended.at, None, None, None, ended.settled)
            }
            Status::Unknown => (Timestamp::ZERO, None, None, None, Settled::default()),
        };
        if row.state_code > 2 {
            (due, delay, fence) = (None, None, None);
        }
        self.flags.push(flags);
        self.at.push(at.as_millis());
        self.due.push(due);
        self.delays.push(delay);
        self.fences.push(fence);
        self.settled.push(kept(settled.fence));
        self.settled_by.push(settled_by(settled));
        let [failures, lock_expiries, releases, requeues] = counts.map(small);
        self.failures.push(failures);
        self.lock_expiries.push(lock_expiries);
        self.releases.push(releases);
        self.requeues.push(requeues);
        self.holders.push(row.holder.as_deref());
        self.succeeded.push(names_text(&row.succeeded));
        let errors = (!row.errors.is_empty()).then(|| row.errors.clone());
        self.errors.push(errors);
        self.last_errors
            .push(row.last_error.as_deref().map(str::as_bytes));
        self.notes.push(row.note.as_deref().map(str::as_bytes));
    }

    pub(crate) async fn write(
        &self,
        session: &mut Session,
        sql: &Statements,
        id: i32,
    ) -> Outcome<()> {
        let values: Values<'_> = &[
            (&id, Type::INT4),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.states, Type::INT2_ARRAY),
            (&self.flags, Type::INT2_ARRAY),
            (&self.at, Type::INT8_ARRAY),
            (&self.due, Type::INT8_ARRAY),
            (&self.delays, Type::INT8_ARRAY),
            (&self.fences, Type::INT8_ARRAY),
            (&self.settled, Type::INT8_ARRAY),
            (&self.settled_by, Type::INT2_ARRAY),
            (&self.failures, Type::INT4_ARRAY),
            (&self.lock_expiries, Type::INT4_ARRAY),
            (&self.releases, Type::INT4_ARRAY),
            (&self.requeues, Type::INT4_ARRAY),
            (&self.holders, Type::TEXT_ARRAY),
            (&self.succeeded, Type::TEXT_ARRAY),
            (&self.errors, Type::TEXT_ARRAY),
            (&self.last_errors, Type::BYTEA_ARRAY),
            (&self.notes, Type::BYTEA_ARRAY),
        ];
        session.ask(&sql.sql(WRITE), values).await?;
        Ok(())
    }
}
