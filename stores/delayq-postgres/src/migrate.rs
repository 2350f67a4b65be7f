//! Migrations: a person brings the schema to the version of this release.

use std::time::Duration;

use delayq_core::Result;
use delayq_core::store::Durability;

use crate::config::PostgresConfig;
use crate::connection::Connections;
use crate::statements::Statements;
use crate::{preflight, schema};

/// How long a call may take. Indexes of a large table take their time.
const TIMEOUT: Duration = Duration::from_hours(1);

/// Brings the schema of a database to the version of this release: as the owner of the schema, or
/// as a script for one.
///
/// A store does this by itself when it is opened, if its role may. So this is for an application
/// whose role may not change a schema.
#[derive(Clone, Debug)]
pub struct PostgresMigration {
    config: PostgresConfig,
    has_roles: bool,
}

/// The versions of a schema before and after a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// The version before; 0 if there was no schema.
    pub from: u32,
    /// The version now.
    pub to: u32,
}

impl PostgresMigration {
    /// A migration of the schema that `config` names.
    #[must_use]
    pub fn new(config: PostgresConfig) -> Self {
        Self {
            config,
            has_roles: false,
        }
    }

    /// Also makes the groups of roles `SCHEMA_sender`, `SCHEMA_worker` and `SCHEMA_reader`, which
    /// needs the right `CREATEROLE`. Their rights are set by each migration once they exist.
    #[must_use]
    pub fn with_roles(mut self) -> Self {
        self.has_roles = true;
        self
    }

    /// The statements that make the schema in a database that has none.
    #[must_use]
    pub fn script(&self) -> String {
        schema::script(&self.config.schema, self.has_roles)
    }

    /// Runs the migration in one transaction. Functions and rights are made anew even if the
    /// version is the same. Instances of this release and the one before go on working meanwhile; a
    /// change of a table waits for at most 2 s for the transactions that use it, and is then tried
    /// again.
    ///
    /// # Errors
    /// `Misconfigured` if the role may not do this, or the server does not fit; `Incompatible` for
    /// a schema of a newer release, which is not touched; `Unavailable`.
    pub async fn run(&self) -> Result<Migrated> {
        let connections = Connections::start(&self.config, TIMEOUT)?;
        preflight::check(&connections, Durability::Memory).await?;
        let sql = Statements::new(&self.config.schema);
        let from = schema::install(&connections, &sql, self.has_roles).await?;
        connections.close().await;
        Ok(Migrated {
            from: from.unsigned_abs(),
            to: schema::VERSION.unsigned_abs(),
        })
    }
}
