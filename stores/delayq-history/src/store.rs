//! The history of a namespace in a database.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::error::{Error, Result};
use delayq_core::history::Life;
use delayq_core::{Clock, Namespace, SystemClock, TaskId, TaskType, Timestamp};
use tokio::sync::OnceCell;

use crate::backend::{Backend, FORGETS_FOR};
use crate::forget::Forget;
use crate::page::HistoryPage;
use crate::query::{HistoryQuery, MAX_HISTORY_PAGE};
use crate::retention::{Expired, HistoryRetention};
use crate::sink::HistorySink;
use crate::status::HistoryStatus;

/// The forms of a URL, for errors.
const FORMS: &str = "use sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/DATABASE or \
    mysql://USER:PASSWORD@HOST:PORT/DATABASE";

/// The name of a URL in errors.
const WHAT: &str = "history URL";

/// How a database is opened.
#[derive(Clone)]
enum Location {
    #[cfg(feature = "sqlite")]
    Sqlite(std::path::PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(String),
    #[cfg(feature = "mysql")]
    Mysql(crate::mysql::MysqlConfig),
    /// A build without a database makes none.
    #[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
    Nowhere,
}

/// The history of a namespace in a database: what became of its tasks.
///
/// The database is opened by the first call, and again if that fails: a process starts without it.
pub struct HistoryStore {
    location: Location,
    namespace: Namespace,
    timeout: Duration,
    backend: Arc<OnceCell<Box<dyn Backend>>>,
    copies: Vec<Arc<dyn HistorySink>>,
}

impl fmt::Debug for HistoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryStore")
            .field("place", &self.place())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl HistoryStore {
    /// The history of `namespace` in the database of a URL. A call takes at most `timeout`.
    ///
    /// - `sqlite:PATH` (feature `sqlite`): one file, made if it is missing.
    /// - `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE` (feature `postgres`): its tables are
    ///   in the schema `delayq_history`, or that of `?schema=NAME`, and are made if they are
    ///   missing.
    /// - `mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE` or `mariadb://..` (feature `mysql`): MySQL
    ///   8.0 or MariaDB 10.6, or newer. The database has to be there; its tables are made if they
    ///   are missing. `sslmode` (`disable`, `prefer`, `require`, `verify-full`) and `sslrootcert`
    ///   are its options.
    ///
    /// # Errors
    /// `InvalidInput` for a URL of another form, or one that this build cannot open.
    pub fn at(url: &str, namespace: Namespace, timeout: Duration) -> Result<Self> {
        Ok(Self {
            location: Location::of(url.trim_end_matches(['\r', '\n']))?,
            namespace,
            timeout,
            backend: Arc::default(),
            copies: Vec::new(),
        })
    }

    /// The history of another namespace in the same database, over the same connections.
    #[must_use]
    pub fn of(&self, namespace: Namespace) -> Self {
        Self {
            location: self.location.clone(),
            namespace,
            timeout: self.timeout,
            backend: Arc::clone(&self.backend),
            copies: self.copies.clone(),
        }
    }

    /// The same history, whose records also go to `sink`, before the database has them.
    #[must_use]
    pub fn copied_to(mut self, sink: Arc<dyn HistorySink>) -> Self {
        self.copies.push(sink);
        self
    }

    /// The database, without secrets.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.location {
            #[cfg(feature = "sqlite")]
            Location::Sqlite(path) => format!("sqlite:{}", path.display()),
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => crate::postgres::place(url),
            #[cfg(feature = "mysql")]
            Location::Mysql(config) => config.place(),
            #[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
            Location::Nowhere => String::new(),
        }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    async fn backend(&self) -> Result<&dyn Backend> {
        let opened = self.backend.get_or_try_init(|| self.open());
        Ok(&**opened.await?)
    }

    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
        allow(clippy::unused_async, reason = "a database is opened")
    )]
    async fn open(&self) -> Result<Box<dyn Backend>> {
        match &self.location {
            #[cfg(feature = "sqlite")]
            Location::Sqlite(path) => {
                let opened = crate::sqlite::SqliteHistory::open(path, self.timeout).await?;
                Ok(Box::new(opened))
            }
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => {
                let opened = crate::postgres::PostgresHistory::open(url, self.timeout).await?;
                Ok(Box::new(opened))
            }
            #[cfg(feature = "mysql")]
            Location::Mysql(config) => {
                let opened = crate::mysql::MysqlHistory::open(config, self.timeout).await?;
                Ok(Box::new(opened))
            }
            #[cfg(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
            Location::Nowhere => Err(Error::Unsupported("a history")),
        }
    }

    /// Stores lives. One that is stored already stays as it is, so a repeated call is harmless.
    /// Returns the number of new ones. Once it returns, they survive a crash of the database. Those
    /// that somebody has [forgotten](Self::forget) while they waited are removed at once.
    ///
    /// # Errors
    /// The same for every method: `Unavailable` if the database cannot be reached, `Misconfigured`
    /// with what to change, `Indeterminate` if the answer was lost, `InvalidInput` for a life that
    /// the database takes in no way.
    pub async fn record(&self, lives: &[Life]) -> Result<u64> {
        if lives.is_empty() {
            return Ok(0);
        }
        for sink in &self.copies {
            sink.record(&self.namespace, lives).await?;
        }
        let backend = self.backend().await?;
        let mut new = backend.record(&self.namespace, lives).await?;
        // After the record: of a record and a forget at the same time, one sees the other.
        let first = lives.iter().map(|life| life.ended_at).min();
        let first = first.unwrap_or(Timestamp::ZERO);
        let since = first.minus(Duration::from_millis(1));
        let since = since.max(SystemClock.now().minus(FORGETS_FOR));
        for (whom, at) in backend.forgets(&self.namespace, since).await? {
            let is_meant = |life: &Life| life.ended_at <= at && whom.covers(life);
            if lives.iter().any(is_meant) {
                // Of the span of these lives: earlier ones are gone, or the forget removes them.
                let forget = backend.forget(&self.namespace, &whom, first..=at);
                new = new.saturating_sub(forget.await?);
            }
        }
        Ok(new)
    }

    /// A page of the lives that a search finds, latest end first.
    ///
    /// # Errors
    /// `InvalidInput` for a search that [`check`](HistoryQuery::check) refuses.
    pub async fn search(&self, query: &HistoryQuery) -> Result<HistoryPage> {
        query.check()?;
        self.backend().await?.search(&self.namespace, query).await
    }

    /// The lives of a task, latest first, at most [`MAX_HISTORY_PAGE`].
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub async fn lives(&self, task_type: &TaskType, id: &TaskId) -> Result<Vec<Life>> {
        let query = HistoryQuery {
            task_type: Some(task_type.clone()),
            id: Some(id.clone()),
            limit: MAX_HISTORY_PAGE,
            ..HistoryQuery::default()
        };
        Ok(self.search(&query).await?.lives)
    }

    /// Removes lives for good. Returns their number. Lives that have ended and are recorded within
    /// the next seven days are removed then.
    ///
    /// # Errors
    /// As [`record`](Self::record); `InvalidInput` for an empty group.
    pub async fn forget(&self, whom: &Forget) -> Result<u64> {
        if let Forget::Group { group, .. } = whom
            && group.trim().is_empty()
        {
            return Err(Error::invalid(
                "group",
                "it is empty: name the group to forget",
            ));
        }
        let (backend, at) = (self.backend().await?, SystemClock.now());
        backend.note_forget(&self.namespace, whom, at).await?;
        let ended = Timestamp::ZERO..=Timestamp::MAX;
        backend.forget(&self.namespace, whom, ended).await
    }

    /// Removes lives whose retention is over at `now`: one by one those that another namespace or
    /// type keeps longer, and those in SQLite; else by the month.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub async fn expire(&self, keep: &HistoryRetention, now: Timestamp) -> Result<Expired> {
        let backend = self.backend().await?;
        backend.expire(&self.namespace, keep, now).await
    }

    /// The state of the history.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub async fn status(&self) -> Result<HistoryStatus> {
        self.backend().await?.status(&self.namespace).await
    }

    /// Ends the connections, if there are any. Not needed for safety.
    pub async fn close(&self) {
        if let Some(backend) = self.backend.get() {
            backend.close().await;
        }
    }
}

impl Location {
    fn of(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        match scheme {
            #[cfg(feature = "sqlite")]
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() || path.contains('?') {
                    let reason = format!("{url:?}: write sqlite:PATH, without options");
                    return Err(Error::invalid(WHAT, reason));
                }
                Ok(Self::Sqlite(path.into()))
            }
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                crate::postgres::check(url)?;
                Ok(Self::Postgres(url.to_owned()))
            }
            #[cfg(feature = "mysql")]
            "mysql" | "mariadb" => Ok(Self::Mysql(crate::mysql::MysqlConfig::parse(url)?)),
            #[cfg(not(feature = "sqlite"))]
            "sqlite" => Err(missing("sqlite", rest)),
            #[cfg(not(feature = "postgres"))]
            "postgres" | "postgresql" => Err(missing("postgres", rest)),
            #[cfg(not(feature = "mysql"))]
            "mysql" | "mariadb" => Err(missing("mysql", rest)),
            _ => {
                // What follows may be a password.
                let reason = format!("the scheme {scheme:?} is not known: {FORMS}");
                Err(Error::invalid(WHAT, reason))
            }
        }
    }
}

#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "mysql")))]
fn missing(feature: &str, _: &str) -> Error {
    let reason = format!(
        "this build cannot open it: add features = [{feature:?}] to delayq-plugin in Cargo.toml"
    );
    Error::invalid(WHAT, reason)
}
