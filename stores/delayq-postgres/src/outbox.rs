//! The outbox: calls of applications for tasks that are in another store.

use std::time::Duration;

use delayq_core::name::Namespace;
use delayq_core::store::{Durability, SqlPlace, StoreOptions};
use delayq_core::{Error, Result};
use futures_util::future::BoxFuture;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::config::PostgresConfig;
use crate::connection::{Connections, Session, Values};
use crate::error::Outcome;
use crate::outbox_call::{Call, CallEnd, CallKind};
use crate::statements::Statements;
use crate::{preflight, schema};

const SET: &str = "SELECT {s}.set_relayed_v1($1, $2)";
const LANES: &str = "SELECT {s}.lanes_v1($1)";
const LEASE: &str = "SELECT {s}.lease_v1($1, $2, $3, $4)";
const ROWS: &str = "SELECT (o_row).*, o_previous FROM {s}.outbox_v1($1, $2, $3)";
const NOTE: &str = "SELECT {s}.relayed_v1($1, $2, $3, $4, $5, $6, $7)";
const STATUS: &str = "SELECT o_now, o_waiting, o_oldest, o_aside FROM {s}.outbox_status_v1($1)";
const ASIDE: &str = "SELECT seq, type, id, call, aside, error FROM {s}.outbox \
    WHERE namespace = $1 AND aside IS NOT NULL ORDER BY aside, seq LIMIT $2";
/// How often, and after which pause, the place of the tasks is changed while transactions are open.
const BEGIN_TRIES: usize = 100;
const BEGIN_PAUSE: Duration = Duration::from_millis(50);

const RESOLVE: &str = "SELECT {s}.resolve_aside_v1($1, $2, $3)";

/// The outbox of a namespace in a PostgreSQL database.
///
/// The functions `delayq.send`, `cancel`, `reschedule` and `update` write their calls into it, in
/// the transaction of the application. A [relay](crate::OutboxRelay) applies them to another store.
#[derive(Clone, Debug)]
pub struct Outbox {
    connections: Connections,
    sql: Statements,
    pub(crate) namespace: Namespace,
}

/// How far the relay is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxStatus {
    /// The number of calls that wait.
    pub waiting: u64,
    /// How long the oldest of them has waited.
    pub lag: Duration,
    /// The number of calls that can never be applied, such as the send of a task whose id is
    /// taken. They wait for a person.
    pub aside: u64,
}

/// A call that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AsideCall {
    /// Its number.
    pub seq: i64,
    /// `send`, `cancel`, `reschedule` or `update`.
    pub call: &'static str,
    /// The type of the task.
    pub task_type: String,
    /// The id of the task.
    pub id: String,
    /// Why it cannot be applied.
    pub error: String,
}

impl Outbox {
    /// Opens the outbox of a namespace, and changes nothing: see [`begin`](Self::begin).
    ///
    /// # Errors
    /// As for [`PostgresStore::connect`](crate::PostgresStore::connect).
    pub async fn open(config: &PostgresConfig, namespace: Namespace) -> Result<Self> {
        let timeout = StoreOptions::default().call_timeout;
        let connections = Connections::start(config, timeout)?;
        preflight::check(&connections, Durability::Memory).await?;
        let sql = Statements::new(&config.schema);
        schema::prepare(&connections, &sql, config.may_migrate).await?;
        Ok(Self {
            connections,
            sql,
            namespace,
        })
    }

    /// Sends the calls for the namespace to the outbox from now on.
    ///
    /// # Errors
    /// `InvalidInput` if the namespace has tasks in this database, which no relay would see.
    pub async fn begin(&self) -> Result<()> {
        self.set_relayed(true).await
    }

    /// Ends the outbox: later calls are for tasks in this database.
    ///
    /// # Errors
    /// `InvalidInput` while it has calls.
    pub async fn end(&self) -> Result<()> {
        self.set_relayed(false).await
    }

    async fn set_relayed(&self, is_relayed: bool) -> Result<()> {
        for _ in 0..BEGIN_TRIES {
            let set = self.ask(SET, move |namespace| {
                vec![text(namespace), (Box::new(is_relayed), Type::BOOL)]
            });
            match one(&set.await?, None::<bool>)? {
                Some(true) => return Ok(()),
                Some(false) => return Err(in_use(is_relayed)),
                None => tokio::time::sleep(BEGIN_PAUSE).await,
            }
        }
        let text =
            "a transaction that has sent or changed a task stays open: end it, and try again";
        Err(Error::unavailable(self.place(), text))
    }

    /// How far the relay is behind.
    ///
    /// # Errors
    /// As for every call.
    pub async fn status(&self) -> Result<OutboxStatus> {
        let rows = self.ask(STATUS, |namespace| vec![text(namespace)]).await?;
        let read = || -> Outcome<OutboxStatus> {
            let Some(row) = rows.first() else {
                return Err(Error::corrupt("outbox_status_v1", "it has no answer").into());
            };
            let now: i64 = row.try_get(0)?;
            let (waiting, aside): (i64, i64) = (row.try_get(1)?, row.try_get(3)?);
            let oldest: Option<i64> = row.try_get(2)?;
            let lag = oldest.map_or(0, |oldest| (now - oldest).max(0));
            Ok(OutboxStatus {
                waiting: waiting.unsigned_abs(),
                lag: Duration::from_millis(lag.unsigned_abs()),
                aside: aside.unsigned_abs(),
            })
        };
        read().map_err(|fault| fault.error(self.place(), false))
    }

    /// Up to `limit` calls that were set aside, the oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn aside(&self, limit: u32) -> Result<Vec<AsideCall>> {
        let rows = self.ask(ASIDE, move |namespace| {
            vec![text(namespace), (Box::new(i64::from(limit)), Type::INT8)]
        });
        let rows = rows.await?;
        let read = |row: &Row| -> Outcome<AsideCall> {
            let error: Option<String> = row.try_get(5)?;
            Ok(AsideCall {
                seq: row.try_get(0)?,
                call: CallKind::of(row.try_get(3)?).name(),
                task_type: row.try_get(1)?,
                id: row.try_get(2)?,
                error: error.unwrap_or_default(),
            })
        };
        let calls: Outcome<Vec<_>> = rows.iter().map(read).collect();
        calls.map_err(|fault| fault.error(self.place(), false))
    }

    /// Tries calls that were set aside again: one by its number, or all. Returns how many.
    ///
    /// # Errors
    /// As for every call.
    pub async fn retry_aside(&self, seq: Option<i64>) -> Result<u64> {
        self.resolve(seq, false).await
    }

    /// Removes calls that were set aside: one by its number, or all. Returns how many.
    ///
    /// # Errors
    /// As for every call.
    pub async fn discard_aside(&self, seq: Option<i64>) -> Result<u64> {
        self.resolve(seq, true).await
    }

    async fn resolve(&self, seq: Option<i64>, discards: bool) -> Result<u64> {
        let rows = self.ask(RESOLVE, move |namespace| {
            vec![
                text(namespace),
                (Box::new(seq), Type::INT8),
                (Box::new(discards), Type::BOOL),
            ]
        });
        Ok(one(&rows.await?, 0_i64)?.unsigned_abs())
    }

    /// The lanes that have calls to apply.
    pub(crate) async fn lanes(&self) -> Result<Vec<i32>> {
        let rows = self.ask(LANES, |namespace| vec![text(namespace)]).await?;
        Ok(rows.iter().filter_map(|row| row.try_get(0).ok()).collect())
    }

    /// Holds a lane for `span`, or longer. False if another relay has it.
    pub(crate) async fn lease(&self, lane: i32, holder: &str, span: Duration) -> Result<bool> {
        let (holder, span) = (holder.to_owned(), delayq_core::time::duration_ms(span));
        let rows = self.ask(LEASE, move |namespace| {
            vec![
                text(namespace),
                (Box::new(lane), Type::INT4),
                (Box::new(holder.clone()), Type::TEXT),
                (Box::new(span), Type::INT8),
            ]
        });
        one(&rows.await?, false)
    }

    /// The first calls of a lane, in their order.
    pub(crate) async fn calls(&self, lane: i32, limit: i32) -> Result<Vec<Call>> {
        let rows = self.ask(ROWS, move |namespace| {
            vec![
                text(namespace),
                (Box::new(lane), Type::INT4),
                (Box::new(limit), Type::INT4),
            ]
        });
        let rows = rows.await?;
        let calls: Outcome<Vec<_>> = rows.iter().map(Call::read).collect();
        calls.map_err(|fault| fault.error(self.place(), false))
    }

    /// Notes what became of calls. False if the lane is no longer held.
    pub(crate) async fn note(
        &self,
        lane: i32,
        holder: &str,
        ends: &[(i64, CallEnd)],
        wait: Duration,
    ) -> Result<bool> {
        let seqs: Vec<i64> = ends.iter().map(|(seq, _)| *seq).collect();
        let numbers: Vec<i16> = ends.iter().map(|(_, end)| end.number()).collect();
        let errors: Vec<Option<String>> = ends.iter().map(|(_, end)| end.error()).collect();
        let (holder, wait) = (holder.to_owned(), delayq_core::time::duration_ms(wait));
        let rows = self.ask(NOTE, move |namespace| {
            vec![
                text(namespace),
                (Box::new(lane), Type::INT4),
                (Box::new(holder.clone()), Type::TEXT),
                (Box::new(seqs.clone()), Type::INT8_ARRAY),
                (Box::new(numbers.clone()), Type::INT2_ARRAY),
                (Box::new(errors.clone()), Type::TEXT_ARRAY),
                (Box::new(wait), Type::INT8),
            ]
        });
        one(&rows.await?, false)
    }

    pub(crate) fn place(&self) -> &str {
        self.connections.place()
    }

    /// Where a transaction finds this outbox: for `TaskSubmitService::with_outbox`.
    #[must_use]
    pub fn sql_place(&self) -> SqlPlace {
        SqlPlace::new(self.sql.schema(), self.namespace.clone())
    }

    /// Closes its connections.
    pub async fn close(&self) {
        self.connections.close().await;
    }

    async fn ask(
        &self,
        sql: &'static str,
        values: impl Fn(&Namespace) -> Vec<Value> + Send + Sync + 'static,
    ) -> Result<Vec<Row>> {
        let (sql, namespace) = (self.sql.sql(sql), self.namespace.clone());
        let values = std::sync::Arc::new(values);
        let call = self.connections.call(
            move |session: &mut Session| -> BoxFuture<'_, Outcome<Vec<Row>>> {
                let (sql, values) = (sql.clone(), values(&namespace));
                Box::pin(async move {
                    let values: Vec<_> = values
                        .iter()
                        .map(|(value, of)| (&**value as _, of.clone()))
                        .collect();
                    let values: Values<'_> = &values;
                    session.write(&sql, values).await
                })
            },
        );
        call.await
    }
}

/// Why the tasks of a namespace cannot be elsewhere now.
fn in_use(is_relayed: bool) -> Error {
    let reason = if is_relayed {
        "it has tasks in this database: wait for their end, or name another namespace"
    } else {
        "its outbox has calls: let the relay apply them, or discard what is set aside"
    };
    Error::invalid("namespace of the outbox", reason)
}

/// A value of a statement.
type Value = (Box<dyn tokio_postgres::types::ToSql + Send + Sync>, Type);

fn text(namespace: &Namespace) -> Value {
    (Box::new(namespace.as_str().to_owned()), Type::TEXT)
}

/// The value of the one row; `absent` if there is none.
fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(rows: &[Row], absent: T) -> Result<T> {
    let value = rows.first().map(|row| row.try_get(0)).transpose();
    let value = value.map_err(|error| Error::corrupt("the outbox", error.to_string()))?;
    Ok(value.unwrap_or(absent))
}
