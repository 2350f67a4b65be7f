//! [`PostgresStore`], and its operations on tasks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq_core::name::{Namespace, TaskType};
use delayq_core::store::{Durability, StoreOptions};
use delayq_core::{Error, Result};
use tokio_postgres::types::Type;
use tracing::debug;

use crate::config::PostgresConfig;
use crate::connection::{Connections, Session, Values};
use crate::floors::Floors;
use crate::statements::Statements;
use crate::submit::Submits;
use crate::type_row::TypeKey;
use crate::upkeep::Upkeep;
use crate::wakes::Wakes;
use crate::{preflight, schema};

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
    locals: Mutex<HashMap<TaskType, Local>>,
}

/// What this process knows of a type.
#[derive(Debug, Default)]
struct Local {
    floors: Floors,
    /// Ends since the oldest ones were looked at.
    ends: usize,
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
        let upkeep = Upkeep {
            sql: statements.clone(),
            namespace: namespace.to_string(),
            retention: options.retention,
            remembered: options.remembered,
        };
        let followed = upkeep.clone().follow(connections.downgrade());
        drop(connections.spawn(followed));
        let timeout = options.call_timeout;
        let name = namespace.as_str();
        Ok(Arc::new(Self {
            submits: Submits::new(&connections, &statements, &upkeep, timeout),
            wakes: Wakes::start(&connections, &config, name),
            connections,
            statements,
            namespace,
            retention: options.retention,
            retention_ms: upkeep.retention_ms(),
            upkeep,
            wanted: options.durability,
            durability: Mutex::new(durability),
            may_migrate: config.may_migrate,
            locals: Mutex::default(),
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

    fn with_local<R>(&self, task_type: &TaskType, work: impl FnOnce(&mut Local) -> R) -> R {
        let mut locals = self.locals.lock().unwrap_or_else(PoisonError::into_inner);
        work(locals.entry(task_type.clone()).or_default())
    }

    pub(crate) fn with_floors<R>(
        &self,
        task_type: &TaskType,
        work: impl FnOnce(&mut Floors) -> R,
    ) -> R {
        self.with_local(task_type, |local| work(&mut local.floors))
    }

    /// Counts ends. True once there are more than `most` since the last time.
    pub(crate) fn count_ends(&self, task_type: &TaskType, ended: usize, most: usize) -> bool {
        self.with_local(task_type, |local| {
            local.ends += ended;
            let is_due = local.ends > most.max(1);
            if is_due {
                local.ends = 0;
            }
            is_due
        })
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
        if is_kept && !self.count_ends(task_type, ended, most / 2) {
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
            self.upkeep.forget(&self.connections, id, 0).await?;
        }
        Ok(())
    }
}
