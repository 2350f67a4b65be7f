//! A history in a SQLite file.

mod sql;

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::error::{Error, Result};
use delayq_core::history::{Life, LifeOutcome};
use delayq_core::{Clock, Namespace, SystemClock, TaskId, TaskType, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params, params_from_iter};

use crate::backend::{Backend, FORGETS_FOR};
use crate::filter::{Bound, Dialect, Filter, with_bytes_bound};
use crate::forget::Forget;
use crate::page::{FoundLife, HistoryCursor, HistoryPage};
use crate::query::HistoryQuery;
use crate::retention::{Expired, HistoryRetention};
use crate::status::HistoryStatus;

const DIALECT: Dialect = Dialect {
    mark: '?',
    is_numbered: true,
    has_error: "instr(l.error, {}) > 0",
};

/// `application_id` of the file: "dlqh". Tools such as `file` show it.
const APPLICATION: i64 = 0x646c_7168;

/// The version of the tables.
const VERSION: i64 = 2;

/// Lives that one step removes.
const STEP: i64 = 1_000;

/// How many steps of the engine pass between two looks at the time.
const LOOK_EVERY: i32 = 10_000;

/// A history in a file. Writes take turns, and so do reads, which do not wait for writes.
#[derive(Debug)]
pub(crate) struct SqliteHistory {
    place: String,
    timeout: Duration,
    writer: Arc<Mutex<Connection>>,
    reader: Arc<Mutex<Connection>>,
}

impl SqliteHistory {
    pub(crate) async fn open(path: &Path, timeout: Duration) -> Result<Self> {
        let place = format!("sqlite:{}", path.display());
        let (own, path) = (place.clone(), path.to_owned());
        let opened = off_thread(&place, move || {
            if let Some(folder) = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
            {
                std::fs::create_dir_all(folder)
                    .map_err(|error| Error::unavailable(own.as_str(), error.to_string()))?;
            }
            let writer = connect(&path, timeout, &own)?;
            let reader = connect(&path, timeout, &own)?;
            Ok((writer, reader))
        });
        let (writer, reader) = opened.await?;
        Ok(Self {
            place,
            timeout,
            writer: Arc::new(Mutex::new(writer)),
            reader: Arc::new(Mutex::new(reader)),
        })
    }

    /// Runs `work`, which writes, on a thread that may block.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (connection, place) = (Arc::clone(&self.writer), self.place.clone());
        off_thread(&self.place, move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut connection).map_err(|error| failed(&place, &error))
        })
        .await
    }

    /// Runs `work`, which reads, on a thread that may block, for as long as a call may take.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (connection, place) = (Arc::clone(&self.reader), self.place.clone());
        let until = SystemClock.elapsed().saturating_add(self.timeout);
        off_thread(&self.place, move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let is_over = move || SystemClock.elapsed() >= until;
            let limited = connection.progress_handler(LOOK_EVERY, Some(is_over));
            let done = limited.and_then(|()| work(&mut connection));
            done.map_err(|error| failed(&place, &error))
        })
        .await
    }

    /// Runs a statement that removes at most [`STEP`] rows until it removes none. Other writes come
    /// in between.
    async fn remove(&self, sql: String, values: Vec<Value>) -> Result<u64> {
        let mut removed = 0;
        loop {
            let (sql, values) = (sql.clone(), values.clone());
            let step = self.call(move |connection| {
                // What is removed is overwritten.
                connection.execute_batch("PRAGMA secure_delete = ON")?;
                let mut remove = connection.prepare_cached(&sql)?;
                remove.execute(params_from_iter(values))
            });
            match step.await? {
                0 => return Ok(removed),
                step => removed += step as u64,
            }
        }
    }
}

async fn off_thread<T: Send + 'static>(
    place: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::unavailable(place, error.to_string())))
}

fn failed(place: &str, error: &rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as Code;
    match error.sqlite_error_code() {
        Some(Code::DiskFull) => Error::full(place, format!("{error}: free space on its disk")),
        Some(Code::ReadOnly | Code::PermissionDenied) => {
            Error::read_only(place, format!("{error}: let the process write the file"))
        }
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
            Error::corrupt(place, format!("{error}: restore a backup"))
        }
        Some(Code::OperationInterrupted) => Error::unavailable(
            place,
            "the search takes longer than a call may: name a type, an id or a span of time",
        ),
        _ => Error::unavailable(place, error.to_string()),
    }
}

fn connect(path: &Path, timeout: Duration, place: &str) -> Result<Connection> {
    let opened = Connection::open(path).and_then(|connection| {
        connection.busy_timeout(timeout)?;
        let application = number(&connection, "PRAGMA application_id")?;
        let version = number(&connection, "PRAGMA user_version")?;
        let tables = number(&connection, "SELECT count(*) FROM sqlite_schema")?;
        Ok((connection, application, version, tables))
    });
    let (connection, application, version, tables) =
        opened.map_err(|error| failed(place, &error))?;
    if application != APPLICATION && (tables > 0 || application != 0) {
        let setting = "the file belongs to another application, or holds delayq's tasks";
        return Err(Error::misconfigured(
            place,
            setting,
            "give the history a file of its own",
        ));
    }
    if version > VERSION {
        return Err(Error::Incompatible {
            what: place.to_owned(),
            found: u32::try_from(version).unwrap_or(u32::MAX),
            supported: u32::try_from(VERSION).unwrap_or(u32::MAX),
        });
    }
    let made = prepare(connection, version);
    made.map_err(|error| failed(place, &error))
}

fn prepare(mut connection: Connection, version: i64) -> rusqlite::Result<Connection> {
    // What was recorded is removed elsewhere, so it has to survive a power loss.
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(sql::TABLES)?;
    for (table, column) in sql::COLUMNS_OF_2.iter().filter(|_| version == 1) {
        let name = column.split(' ').next();
        let has = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
        if tx.query_row(has, (table, name), |row| row.get::<_, i64>(0))? == 0 {
            tx.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column}"))?;
        }
    }
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", VERSION)?;
    tx.commit()?;
    Ok(connection)
}

fn number(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.query_row(sql, [], |row| row.get(0))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[async_trait]
impl Backend for SqliteHistory {
    async fn record(&self, namespace: &Namespace, lives: &[Life]) -> Result<u64> {
        let (namespace, lives) = (namespace.clone(), lives.to_vec());
        self.call(move |connection| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut added = 0;
            for life in &lives {
                added += add(&tx, &namespace, life)? as u64;
            }
            tx.commit()?;
            Ok(added)
        })
        .await
    }

    async fn search(&self, namespace: &Namespace, query: &HistoryQuery) -> Result<HistoryPage> {
        let mut filter = Filter::new(DIALECT);
        filter.with("t.namespace = {}", Bound::Text(namespace.to_string()));
        filter.search(query);
        let limit = query.limit;
        let place = filter.value(Bound::Int(signed(limit as u64 + 1)));
        let sql = [
            sql::SEARCH,
            index(query),
            sql::OF_TYPES,
            &filter.sql(),
            sql::LATEST_FIRST,
            &place,
        ]
        .concat();
        let sql = with_bytes_bound(&sql, "name");
        let values = values(filter.values);
        let found = self.read(move |connection| {
            let mut select = connection.prepare_cached(&sql)?;
            let rows = select.query_map(params_from_iter(values), read)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        Ok(HistoryPage::of(found.await?, limit))
    }

    async fn forget(
        &self,
        namespace: &Namespace,
        whom: &Forget,
        ended: RangeInclusive<Timestamp>,
    ) -> Result<u64> {
        let mut filter = Filter::new(DIALECT);
        filter.with("t.namespace = {}", Bound::Text(namespace.to_string()));
        let (index, column, value) = match whom {
            Forget::Id { id, .. } => ("lives_key", "l.id = {}", id.to_string()),
            Forget::Group { group, .. } => ("lives_group", "l.grp = {}", group.clone()),
        };
        filter.with(column, Bound::Text(value));
        if let Some(task_type) = whom.task_type() {
            filter.with("t.name = {}", Bound::Text(task_type.to_string()));
        }
        filter.ended_within(&ended);
        let place = filter.value(Bound::Int(STEP));
        let sql = [
            sql::FORGET,
            index,
            sql::OF_TYPES,
            &filter.sql(),
            " LIMIT ",
            &place,
            ")",
        ]
        .concat();
        self.remove(sql, values(filter.values)).await
    }

    async fn note_forget(&self, namespace: &Namespace, whom: &Forget, at: Timestamp) -> Result<()> {
        let (namespace, whom) = (namespace.clone(), whom.clone());
        self.call(move |connection| {
            let [id, group, task_type] = whom.columns();
            let row = (namespace.as_str(), at.as_millis(), id, group, task_type);
            connection.execute(sql::NOTE_FORGET, row).map(drop)
        })
        .await
    }

    async fn forgets(
        &self,
        namespace: &Namespace,
        since: Timestamp,
    ) -> Result<Vec<(Forget, Timestamp)>> {
        let namespace = namespace.clone();
        let rows = self.read(move |connection| {
            let mut select = connection.prepare_cached(sql::FORGETS)?;
            let rows = select.query_map((namespace.as_str(), since.as_millis()), |row| {
                let columns = [row.get(1)?, row.get(2)?, row.get(3)?];
                let at = Timestamp::from_millis(row.get(0)?);
                Ok(Forget::of_columns(columns).map(|whom| (whom, at)))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        Ok(rows.await?.into_iter().flatten().collect())
    }

    async fn expire(
        &self,
        namespace: &Namespace,
        keep: &HistoryRetention,
        now: Timestamp,
    ) -> Result<Expired> {
        let (own, before) = (namespace.clone(), now.minus(FORGETS_FOR).as_millis());
        let keep = keep.clone();
        let kept = self.call(move |connection| {
            connection.execute(sql::OLD_FORGETS, (own.as_str(), before))?;
            let [all, at, held] = [keep.all_ms(), now.as_millis(), Expired::held_since(now)];
            connection.execute(sql::KEEP, (own.as_str(), all, at, held))?;
            let all = connection.query_row(sql::KEPT, [own.as_str()], |row| row.get(0))?;
            keep_types(connection, &own, &keep, now)?;
            let mut spans = connection.prepare_cached(sql::SPANS)?;
            let spans =
                spans.query_map((own.as_str(), held), |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok((all, spans.collect::<rusqlite::Result<Vec<(i64, i64)>>>()?))
        });
        let (all, spans): (i64, _) = kept.await?;
        let mut lives = 0;
        for (number, span) in spans {
            let before = now.as_millis().saturating_sub(span);
            let values = [number, before, STEP].map(Value::Integer).to_vec();
            lives += self.remove(sql::EXPIRE.to_owned(), values).await?;
        }
        Ok(Expired::of(lives, all))
    }

    async fn status(&self, namespace: &Namespace) -> Result<HistoryStatus> {
        let namespace = namespace.to_string();
        self.read(move |connection| {
            let mut status = HistoryStatus::default();
            let time = |ms: Option<i64>| ms.map(Timestamp::from_millis);
            (status.oldest, status.newest) =
                connection.query_row(sql::STATUS, [&namespace], |row| {
                    Ok((time(row.get(0)?), time(row.get(1)?)))
                })?;
            status.bytes = number(connection, sql::BYTES)?.unsigned_abs();
            let all = connection.query_row(sql::KEPT, [&namespace], |row| row.get(0));
            let types = types(connection, &namespace)?.into_iter();
            let types = types.filter_map(|(_, name, kept)| Some((name, kept?)));
            status.kept(all.optional()?, types);
            Ok(status)
        })
        .await
    }

    async fn close(&self) {
        let truncate = |connection: &mut Connection| {
            connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        };
        if let Err(error) = self.call(truncate).await {
            tracing::debug!(%error, "the log of the history stays beside its file");
        }
    }
}

/// The types of a namespace: number, name, and their own retention in milliseconds.
fn types(
    connection: &Connection,
    namespace: &str,
) -> rusqlite::Result<Vec<(i64, String, Option<i64>)>> {
    let mut select = connection.prepare_cached(sql::TYPES)?;
    let types = select.query_map([namespace], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    types.collect()
}

/// Notes how long types are kept.
fn keep_types(
    connection: &Connection,
    namespace: &Namespace,
    keep: &HistoryRetention,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let (at, held) = (now.as_millis(), Expired::held_since(now));
    for (number, name, _) in types(connection, namespace.as_str())? {
        if let Some(own) = keep.of_type(&name) {
            connection.execute(sql::KEEP_TYPE, (number, own, at, held))?;
        }
    }
    Ok(())
}

fn add(connection: &Connection, namespace: &Namespace, life: &Life) -> rusqlite::Result<usize> {
    let ms = |time: Timestamp| time.as_millis();
    let name = life.task_type.as_str();
    let values = params![
        namespace.as_str(),
        name,
        life.id.as_str(),
        life.outcome.number(),
        ms(life.submitted_at),
        ms(life.due_at),
        life.started_at.map(ms),
        ms(life.ended_at),
        life.run_ms.map(signed),
        life.late_ms(),
        signed(life.fence),
        life.attempts,
        life.group,
        life.project,
        life.holder,
        life.error,
        life.errors_text(),
        signed(life.message_bytes),
        life.message,
    ];
    let mut add_type = connection.prepare_cached(sql::ADD_TYPE)?;
    add_type.execute((namespace.as_str(), name))?;
    connection.prepare_cached(sql::ADD)?.execute(values)
}

/// The index that leads to what a search finds, in its order where possible.
fn index(query: &HistoryQuery) -> &'static str {
    if query.id.is_some() {
        "lives_key"
    } else if query.group.is_some() {
        "lives_group"
    } else if query.task_type.is_some() {
        "lives_type"
    } else {
        "lives_ended"
    }
}

fn values(bounds: Vec<Bound>) -> Vec<Value> {
    let values = bounds.into_iter().map(|bound| match bound {
        Bound::Int(number) => Value::Integer(number),
        Bound::Text(text) => Value::Text(text),
    });
    values.collect()
}

/// A row of [`sql::SEARCH`]. A row with a name that is none is left out.
fn read(row: &Row<'_>) -> rusqlite::Result<FoundLife> {
    let time =
        |column| -> rusqlite::Result<Timestamp> { Ok(Timestamp::from_millis(row.get(column)?)) };
    let count = |column| -> rusqlite::Result<u64> {
        Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
    };
    let ended_at = time(7)?;
    let cursor = HistoryCursor {
        ended_at,
        number: row.get(0)?,
    };
    let is_cut = row.get(18)?;
    let (name, id): (String, String) = (row.get(1)?, row.get(2)?);
    let outcome = LifeOutcome::from_number(row.get(3)?);
    let (Ok(task_type), Ok(id), Some(outcome)) = (TaskType::new(&name), TaskId::new(&id), outcome)
    else {
        return Ok(FoundLife {
            cursor,
            life: None,
            is_cut,
        });
    };
    let mut life = Life::new(task_type, id, outcome, ended_at);
    life.submitted_at = time(4)?;
    life.due_at = time(5)?;
    life.started_at = row.get::<_, Option<i64>>(6)?.map(Timestamp::from_millis);
    let run: Option<i64> = row.get(8)?;
    life.run_ms = run.map(i64::unsigned_abs);
    life.fence = count(9)?;
    life.attempts = u32::try_from(count(10)?).unwrap_or(u32::MAX);
    life.group = row.get(11)?;
    life.project = row.get(12)?;
    life.holder = row.get(13)?;
    life.error = row.get(14)?;
    let errors: Option<String> = row.get(15)?;
    life.errors = Life::read_errors(errors.as_deref());
    life.message_bytes = count(16)?;
    life.message = row.get(17)?;
    Ok(FoundLife {
        cursor,
        life: Some(life),
        is_cut,
    })
}
