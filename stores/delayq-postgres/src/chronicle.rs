//! Figures and the log of actions.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use delayq_core::chronicle::{
    Action, Chronicle, ChunkChange, LoggedAction, MAX_ACTION_PAGE, MAX_ACTIONS, Spell, Step,
    changes, decode_action, encode_action, merge, read_chunks, slots,
};
use delayq_core::error::Result;
use delayq_core::name::{Namespace, TaskType};
use delayq_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::Session;
use crate::error::Outcome;
use crate::store::PostgresStore;

/// The number of a type, with the lock of its figures: a chunk is read, changed here and written.
const LOCK: &str = "WITH t AS MATERIALIZED (SELECT {s}.type_v1($1, $2) AS id) \
     SELECT id, pg_advisory_xact_lock(hashtextextended('delayq figures ' || id, 0)) FROM t";
const CHUNKS: &str = "SELECT slot, chunk FROM {s}.figures WHERE type = $1 AND slot = ANY($2)";
const PUT: &str = "INSERT INTO {s}.figures (type, slot, chunk) \
     SELECT $1, u.slot, u.chunk FROM unnest($2, $3) AS u(slot, chunk) \
     ON CONFLICT (type, slot) DO UPDATE SET chunk = excluded.chunk";
const NOW: &str = "SELECT {s}.clock_us() / 1000";
const READ: &str = "SELECT chunk FROM {s}.figures WHERE slot = ANY($3) \
     AND type = (SELECT id FROM {s}.types WHERE namespace = $1 AND name = $2)";

/// The counter of actions, as a folder that no document can be in. Its row is locked first, so that
/// numbers and times have one order.
const COUNTER: &str = "log of actions";
const LOG: &str = "WITH next AS ( \
         INSERT INTO {s}.folders AS f (namespace, name, revision) VALUES ($1, $2, 1) \
         ON CONFLICT (namespace, name) DO UPDATE SET revision = f.revision + 1 RETURNING revision \
     ), removed AS ( \
         DELETE FROM {s}.actions WHERE namespace = $1 AND number <= (SELECT revision FROM next) - $4 \
     ) INSERT INTO {s}.actions (namespace, number, at, action) \
     SELECT $1, next.revision, {s}.clock_us() / 1000, $3 FROM next";
const ACTIONS: &str = "SELECT number, at, action FROM {s}.actions \
     WHERE namespace = $1 AND number < $2 ORDER BY number DESC LIMIT $3";

type Chunks = BTreeMap<String, Vec<u8>>;

/// Figures to add to those of a type.
struct Addition {
    lock: Arc<str>,
    chunks: Arc<str>,
    put: Arc<str>,
    namespace: Namespace,
    task_type: TaskType,
    changes: Vec<ChunkChange>,
}

impl Addition {
    async fn run(&self, session: &mut Session) -> Outcome<()> {
        session.begin().await?;
        let (namespace, name) = (self.namespace.as_str(), self.task_type.as_str());
        let key = [(&namespace as _, Type::TEXT), (&name as _, Type::TEXT)];
        for row in session.ask(&self.lock, &key).await? {
            self.add(session, row.try_get(0)?).await?;
        }
        session.commit().await
    }

    async fn add(&self, session: &mut Session, type_id: i32) -> Outcome<()> {
        let slots: Vec<String> = self.changes.iter().map(ChunkChange::slot).collect();
        let key = [(&type_id as _, Type::INT4), (&slots as _, Type::TEXT_ARRAY)];
        let rows = session.ask(&self.chunks, &key).await?;
        let chunk = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let stored = rows.iter().map(chunk).collect::<Outcome<Chunks>>()?;
        let (slots, chunks): (Vec<_>, Vec<_>) = changed(&stored, &self.changes).into_iter().unzip();
        let values = [
            (&type_id as _, Type::INT4),
            (&slots as _, Type::TEXT_ARRAY),
            (&chunks as _, Type::BYTEA_ARRAY),
        ];
        session.ask(&self.put, &values).await?;
        Ok(())
    }
}

/// The new chunks of the slots that the changes are for, several of which may be for one slot.
fn changed(stored: &Chunks, changes: &[ChunkChange]) -> Chunks {
    let mut new = Chunks::new();
    for change in changes {
        let slot = change.slot();
        let before = new.get(&slot).or_else(|| stored.get(&slot));
        if let Some(after) = merge(before.map(Vec::as_slice), change) {
            new.insert(slot, after);
        }
    }
    new
}

fn logged(row: &Row) -> Outcome<LoggedAction> {
    let number: i64 = row.try_get(0)?;
    Ok(LoggedAction::new(
        number.unsigned_abs(),
        Timestamp::from_millis(row.try_get(1)?),
        decode_action(row.try_get(2)?),
    ))
}

#[async_trait]
impl Chronicle for PostgresStore {
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        let addition = Arc::new(Addition {
            lock: self.sql(LOCK),
            chunks: self.sql(CHUNKS),
            put: self.sql(PUT),
            namespace: self.namespace.clone(),
            task_type: task_type.clone(),
            changes: changes(minutes),
        });
        if addition.changes.is_empty() {
            return self.connections.check_open();
        }
        self.connections
            .call(move |session| {
                let addition = Arc::clone(&addition);
                Box::pin(async move { addition.run(session).await })
            })
            .await
    }

    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        let (clock, read) = (self.sql(NOW), self.sql(READ));
        let (namespace, task_type) = (self.namespace.clone(), task_type.clone());
        self.connections
            .call(move |session| {
                let (clock, read) = (Arc::clone(&clock), Arc::clone(&read));
                let (namespace, task_type) = (namespace.clone(), task_type.clone());
                Box::pin(async move {
                    let rows = session.ask(&clock, &[]).await?;
                    let now = rows.first().map(|row| row.try_get(0)).transpose()?;
                    let now = Timestamp::from_millis(now.unwrap_or(0));
                    let (namespace, name) = (namespace.as_str(), task_type.as_str());
                    let values = [
                        (&namespace as _, Type::TEXT),
                        (&name as _, Type::TEXT),
                        (&slots(step, since, now) as _, Type::TEXT_ARRAY),
                    ];
                    let rows = session.ask(&read, &values).await?;
                    let chunks = rows.iter().map(|row| row.try_get(0));
                    let chunks = chunks.collect::<std::result::Result<Vec<&[u8]>, _>>()?;
                    Ok(read_chunks(chunks, step, since, now))
                })
            })
            .await
    }

    async fn log_action(&self, action: &Action) -> Result<()> {
        let (log, namespace) = (self.sql(LOG), self.namespace.clone());
        let action: Arc<[u8]> = encode_action(action).into_bytes().into();
        self.connections
            .call(move |session| {
                let (log, namespace) = (Arc::clone(&log), namespace.clone());
                let action = Arc::clone(&action);
                Box::pin(async move {
                    let most = signed(MAX_ACTIONS);
                    let values = [
                        (&namespace.as_str() as _, Type::TEXT),
                        (&COUNTER as _, Type::TEXT),
                        (&&*action as _, Type::BYTEA),
                        (&most as _, Type::INT8),
                    ];
                    session.write(&log, &values).await.map(drop)
                })
            })
            .await
    }

    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        let (select, namespace) = (self.sql(ACTIONS), self.namespace.clone());
        let before = before.map_or(i64::MAX, signed);
        let limit = signed(limit.min(MAX_ACTION_PAGE));
        self.connections
            .call(move |session| {
                let (select, namespace) = (Arc::clone(&select), namespace.clone());
                Box::pin(async move {
                    let values = [
                        (&namespace.as_str() as _, Type::TEXT),
                        (&before as _, Type::INT8),
                        (&limit as _, Type::INT8),
                    ];
                    let rows = session.ask(&select, &values).await?;
                    rows.iter().map(logged).collect()
                })
            })
            .await
    }
}

/// A number as a value of a statement.
fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
