//! [`PostgresStore`], and its operations on tasks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq_core::name::{Namespace, TaskType};
use delayq_core::store::{Durability, StoreOptions};
use delayq_core::{Error, Result};
use tokio_postgres::types::Type;
use tracing::debug;

use crate::config::PostgresConfig;
use crate::connection::{Connections, Session, Values};
use crate::ends_floor::EndsFloor;
use crate::error::after_a_part;
use crate::locals::Locals;
use crate::statements::Statements;
use crate::submit::Submits;
use crate::type_row::TypeKey;
use crate::upkeep::Upkeep;
use crate::wakes::Wakes;
use crate::{preflight, schema, trim};

const NUMBER: &str = "SELECT id FROM {s}.types WHERE namespace = $1 AND name = $2";

/// A store of tasks in a PostgreSQL database, shared by any number of instances.
///
/// Needs PostgreSQL 14 or newer. Its tables and functions are in a schema of their own, which the
/// first instance makes. Concurrent submits share transactions. Calls work from any tokio runtime:
/// a dedicated thread of the store drives its connections, and a lost one is renewed.
#[derive(Debug)]
pub struct PostgresStore {
    pub(crate) connections: Connections,
    pub(crate) statements: Statements,
    pub(crate) namespace: Namespace,
    pub(crate) retention: Duration,
    pub(crate) retention_ms: i64,
    pub(crate) wakes: Wakes,
    pub(crate) upkeep: Upkeep,
    pub(crate) submits: Submits,
    /// The weakest acceptable class.
    pub(crate) wanted: Durability,
    pub(crate) durability: Mutex<Durability>,
    pub(crate) may_migrate: bool,
    /// How old a snapshot may be before it is a concern.
    pub(crate) held_for: Duration,
    pub(crate) locals: Locals,
    pub(crate) ends_floor: EndsFloor,
}

impl PostgresStore {
    /// Connects to the server that a URL names ([`PostgresConfig`] has the form), as
    /// [`connect_with`](Self::connect_with) does.
    ///
    /// # Errors
    /// `InvalidInput` for a URL of another form; errors of `connect_with`.
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Arc<Self>> {
        Self::connect_with(PostgresConfig::parse(url)?, options).await
    }

    /// Connects, checks that the server's settings fulfil the promises of the store, and makes the
    /// schema if it is missing.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached; `Misconfigured` with the line to change;
    /// `ReadOnly` for a standby; `Incompatible` for a schema of a newer release, which is not
    /// touched.
    pub async fn connect_with(config: PostgresConfig, options: StoreOptions) -> Result<Arc<Self>> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::NoRuntime);
        }
        let options = options.checked()?;
        let connections = Connections::start(&config, options.call_timeout)?;
        let statements = Statements::new(&config.schema);
        let durability = preflight::check(&connections, options.durability).await?;
        schema::prepare(&connections, &statements, config.may_migrate).await?;
        let namespace = options.namespace;
        if let Some(bytes) = options.history_buffer {
            trim::set_limit(&connections, &statements, namespace.as_str(), bytes).await?;
        }
        let upkeep = Upkeep {
            sql: statements.clone(),
            namespace: namespace.to_string(),
            retention: options.retention,
            remembered: options.remembered,
        };
        let followed = upkeep.clone().follow(connections.downgrade());
        drop(connections.spawn(followed));
        let wakes = Wakes::start(&connections, &config.schema, namespace.as_str());
        Ok(Arc::new(Self {
            submits: Submits::new(&connections, &statements, &upkeep, &wakes),
            wakes,
            connections,
            statements,
            namespace,
            retention: options.retention,
            retention_ms: upkeep.retention_ms(),
            upkeep,
            wanted: options.durability,
            durability: Mutex::new(durability),
            may_migrate: config.may_migrate,
            held_for: config.held_for,
            locals: Locals::default(),
            ends_floor: EndsFloor::default(),
        }))
    }

    /// A statement for the schema of this store.
    pub(crate) fn sql(&self, text: &'static str) -> Arc<str> {
        self.statements.sql(text)
    }

    /// The key of a type in statements.
    pub(crate) fn key(&self, task_type: &TaskType) -> TypeKey {
        TypeKey {
            namespace: self.namespace.to_string(),
            name: task_type.to_string(),
        }
    }

    /// The answer of a part of a call. `is_begun`: an earlier part is applied, so that an error
    /// says nothing of the whole.
    pub(crate) fn part<T>(&self, is_begun: bool, answer: Result<T>) -> Result<T> {
        if !is_begun {
            return answer;
        }
        answer.map_err(|error| after_a_part(self.connections.place(), error))
    }

    /// Counts ends of this process, and forgets the oldest ones of the type if there may be too
    /// many.
    pub(crate) async fn forget_beyond(&self, task_type: &TaskType, ended: usize) {
        // The ends are stored, whatever becomes of this.
        if let Err(error) = self.try_forget(task_type, ended).await {
            debug!(%error, "old ends are forgotten later");
        }
    }

    async fn try_forget(&self, task_type: &TaskType, ended: usize) -> Result<()> {
        let most = self.upkeep.remembered;
        if ended == 0 {
            return Ok(());
        }
        let is_kept = !self.retention.is_zero();
        if is_kept && !self.locals.count_ends(task_type, ended, most / 2) {
            return Ok(());
        }
        let (sql, key) = (self.sql(NUMBER), self.key(task_type));
        let call = self.connections.call(move |session: &mut Session| {
            let (sql, key) = (sql.clone(), key.clone());
            Box::pin(async move {
                let values: Values<'_> = &[(&key.namespace, Type::TEXT), (&key.name, Type::TEXT)];
                let rows = session.ask(&sql, values).await?;
                Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
            })
        });
        if let Some(id) = call.await? {
            // On the thread of the connections, to its end.
            let (upkeep, open) = (self.upkeep.clone(), self.connections.clone());
            let forget = async move {
                if let Err(error) = upkeep.forget(&open, id, 0).await {
                    debug!(%error, "old ends are forgotten later");
                }
            };
            let _ = self.connections.spawn(forget).await;
        }
        Ok(())
    }
}
