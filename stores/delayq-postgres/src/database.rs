//! Connections for another part of delayq that keeps its data in a PostgreSQL database, such as
//! the history: the same URLs, TLS, time limits and errors as those of the store.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::Durability;
use delayq_core::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::config::PostgresConfig;
use crate::connection::{Connections, Session};
use crate::error::{Fault, Outcome};
use crate::preflight;

/// A value of a statement.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "for this workspace alone")]
pub enum DbValue {
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// A text, or NULL.
    MaybeText(Option<String>),
    /// Numbers; NULL for `None`.
    Ints(Vec<Option<i64>>),
    /// Texts; NULL for `None`.
    Texts(Vec<Option<String>>),
    /// Bytes; NULL for `None`.
    Blobs(Vec<Option<Vec<u8>>>),
}

impl DbValue {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Int(value) => (value, Type::INT8),
            Self::Text(value) => (value, Type::TEXT),
            Self::MaybeText(value) => (value, Type::TEXT),
            Self::Ints(values) => (values, Type::INT8_ARRAY),
            Self::Texts(values) => (values, Type::TEXT_ARRAY),
            Self::Blobs(values) => (values, Type::BYTEA_ARRAY),
        }
    }
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "for this workspace alone")]
pub enum DbCell {
    /// NULL.
    Null,
    /// A number, or a truth value as 0 or 1.
    Int(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// Connections to a database. A dedicated thread drives them.
#[derive(Clone, Debug)]
pub struct Database {
    connections: Connections,
    schema: String,
}

impl Database {
    /// Connections to the server of a URL, as a store has them. `schema` is used if the URL names
    /// none. A call takes at most `timeout`. The first call connects.
    ///
    /// # Errors
    /// `InvalidInput` for a URL of another form.
    pub fn at(url: &str, schema: &str, timeout: Duration) -> Result<Self> {
        let config = Self::config(url, schema)?;
        Ok(Self {
            connections: Connections::start(&config, timeout)?,
            schema: config.schema,
        })
    }

    /// The server of a URL and its schema.
    fn config(url: &str, schema: &str) -> Result<PostgresConfig> {
        let mut config = PostgresConfig::parse(url)?;
        let query = url.split_once('?').map_or("", |(_, query)| query);
        if !query.split('&').any(|option| option.starts_with("schema=")) {
            schema.clone_into(&mut config.schema);
        }
        Ok(config)
    }

    /// The server of a URL, without secrets.
    ///
    /// # Errors
    /// As [`at`](Self::at).
    pub fn place_of(url: &str, schema: &str) -> Result<String> {
        Ok(Self::config(url, schema)?.place())
    }

    /// The server, without secrets.
    #[must_use]
    pub fn place(&self) -> &str {
        self.connections.place()
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Refuses a server that does not keep what it has acknowledged, and one that is too old.
    ///
    /// # Errors
    /// `Misconfigured` with the line to change, and those of a store's call.
    pub async fn check(&self) -> Result<()> {
        let wanted = Durability::Process;
        preflight::check(&self.connections, wanted).await.map(drop)
    }

    /// Runs one statement that only reads.
    ///
    /// # Errors
    /// Those of a store's call, and `InvalidInput` for a value that the server refuses.
    pub async fn read(&self, sql: &str, values: Vec<DbValue>) -> Result<Vec<Vec<DbCell>>> {
        self.statement(sql, values, false).await
    }

    /// Runs one statement that writes, in a transaction of its own.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn rows(&self, sql: &str, values: Vec<DbValue>) -> Result<Vec<Vec<DbCell>>> {
        self.statement(sql, values, true).await
    }

    async fn statement(
        &self,
        sql: &str,
        values: Vec<DbValue>,
        writes: bool,
    ) -> Result<Vec<Vec<DbCell>>> {
        let (sql, values): (Arc<str>, Arc<[DbValue]>) = (sql.into(), values.into());
        let call = self.connections.call(move |session: &mut Session| {
            let (sql, values) = (Arc::clone(&sql), Arc::clone(&values));
            Box::pin(async move {
                let typed: Vec<_> = values.iter().map(DbValue::typed).collect();
                let rows = if writes {
                    session.write(&sql, &typed).await
                } else {
                    session.ask(&sql, &typed).await
                };
                let rows = rows.map_err(Fault::of_value)?;
                rows.iter().map(cells).collect::<Outcome<Vec<_>>>()
            })
        });
        call.await
    }

    /// Runs statements without values, in one transaction.
    ///
    /// # Errors
    /// Those of a store's call.
    pub async fn run(&self, sql: &str) -> Result<()> {
        let sql: Arc<str> = sql.into();
        let call = self.connections.call(move |session: &mut Session| {
            let sql = Arc::clone(&sql);
            Box::pin(async move {
                session.begin().await?;
                session.run(&sql).await?;
                session.commit().await
            })
        });
        call.await
    }

    /// Runs statements one after the other, each outside a transaction and without a time limit, on
    /// a connection of their own.
    ///
    /// # Errors
    /// Those of a store's call.
    pub async fn run_alone(&self, statements: Vec<String>) -> Result<()> {
        let call = self.connections.alone(move |session: &mut Session| {
            Box::pin(async move {
                for statement in &statements {
                    session.run(statement).await?;
                }
                Ok(())
            })
        });
        call.await
    }

    /// Ends the connections.
    pub async fn close(&self) {
        self.connections.close().await;
    }
}

fn cells(row: &Row) -> Outcome<Vec<DbCell>> {
    let columns = row.columns().iter().enumerate();
    columns
        .map(|(index, column)| {
            let int = |value: Option<i64>| value.map_or(DbCell::Null, DbCell::Int);
            Ok(match *column.type_() {
                Type::INT8 => int(row.try_get(index)?),
                Type::INT4 => int(row.try_get::<_, Option<i32>>(index)?.map(i64::from)),
                Type::INT2 => int(row.try_get::<_, Option<i16>>(index)?.map(i64::from)),
                Type::BOOL => int(row.try_get::<_, Option<bool>>(index)?.map(i64::from)),
                Type::BYTEA => {
                    let value: Option<Vec<u8>> = row.try_get(index)?;
                    value.map_or(DbCell::Null, DbCell::Blob)
                }
                Type::TEXT | Type::NAME => {
                    let value: Option<String> = row.try_get(index)?;
                    value.map_or(DbCell::Null, DbCell::Text)
                }
                _ => return Err(Error::Unsupported("a column of this type").into()),
            })
        })
        .collect()
}
