//! Opens the store that a URL names.

use std::fmt;
use std::sync::Arc;

use delayq_core::memory::MemoryStore;
use delayq_core::store::{Durability, StoreOptions};
use delayq_core::{Error, Result, Store, SystemClock};

mod tier;

pub use self::tier::ColdStore;
pub(crate) use self::tier::open_store_with;

/// The name of a store URL in errors.
const WHAT: &str = "store URL";

/// The forms of a store URL, for error messages.
const FORMS: &str = "use memory:, sqlite:PATH, redis://HOST:PORT/DB, \
    redis+unix:///PATH, redis-sentinel://HOST:PORT,HOST:PORT/MASTER or \
    redis-cluster://HOST:PORT,HOST:PORT; rediss for TLS; \
    postgres://USER:PASSWORD@HOST:PORT/DATABASE; \
    delayq://TOKEN@HOST:PORT/NAMESPACE, delayqs for TLS";

/// Opens the store that `url` names and checks that it can keep what `options` ask for.
///
/// - `memory:` for tests: lost with the process, so it requires `?durability=memory` or the option.
/// - `sqlite:PATH` (feature `sqlite`, on by default): the embedded store in one file, created if it
///   is missing; [`TaskSubmitService::connect`](crate::TaskSubmitService::connect) creates it only
///   with `?create=true`. `?sync=normal` trades the last commits before a power loss for speed
///   (class `process` instead of `disk`).
/// - `redis://[USER:PASSWORD@]HOST[:PORT][/DB]` (feature `redis`), `redis+unix:///PATH` for a Unix
///   socket, `redis-sentinel://` (feature `sentinel`), `redis-cluster://` (feature `cluster`), and
///   `rediss` instead of `redis` for TLS (feature `tls`). `store::RedisConfig` has the options of
///   such a URL.
/// - `postgres://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` or `postgresql://` (feature `postgres`):
///   a PostgreSQL database; the first instance makes its tables, in the schema `delayq` or that of
///   `?schema=NAME`. `store::PostgresConfig` has the options of such a URL.
/// - `delayq://TOKEN@HOST[:PORT][/NAMESPACE]` (feature `remote`): a delayq-server, which keeps the
///   tasks; `delayqs://` with TLS, `?ca=FILE` names the certificates to trust.
///
/// `?durability=memory|process|disk|replicated` overrides the option: the weakest class that is
/// acceptable. Redis and PostgreSQL can be `replicated`.
///
/// It waits, without end, while a Redis server that is reached is loading its data, and logs that
/// once.
///
/// # Errors
/// [`Error::InvalidInput`] for a URL of another form, or one that needs a feature this build does
/// not have; [`Error::Misconfigured`], with the line to change, when the store cannot keep the
/// durability class; the store's own error if it cannot be opened.
pub async fn open_store(url: &str, options: StoreOptions) -> Result<Arc<dyn Store>> {
    // Boxed, as the futures of a start are deep, and the compiler limits how deep those of a
    // program are.
    Box::pin(open(url, options, Loading::Wait)).await
}

/// The same, but a store that is still loading its data is [`Error::Unavailable`].
///
/// # Errors
/// Those of [`open_store`].
pub async fn open_store_once(url: &str, options: StoreOptions) -> Result<Arc<dyn Store>> {
    Box::pin(open(url, options, Loading::Refuse)).await
}

/// What is done about a store that is loading its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loading {
    Wait,
    Refuse,
}

#[cfg_attr(
    not(feature = "redis"),
    allow(unused_variables, reason = "only Redis loads its data")
)]
#[cfg_attr(
    not(any(
        feature = "sqlite",
        feature = "redis",
        feature = "postgres",
        feature = "remote"
    )),
    allow(clippy::unused_async, reason = "memory is opened at once")
)]
async fn open(url: &str, options: StoreOptions, loading: Loading) -> Result<Arc<dyn Store>> {
    let (location, options) = parse(url, options)?;
    if let Some(feature) = missing_feature(url) {
        let reason = format!(
            "this build cannot open it: add features = [{feature:?}] to delayq-plugin in Cargo.toml"
        );
        return Err(Error::invalid(WHAT, reason));
    }
    match location {
        Location::Memory => memory(options),
        #[cfg(feature = "sqlite")]
        Location::Sqlite { path, relaxed } => sqlite(path, options, relaxed).await,
        #[cfg(feature = "redis")]
        Location::Redis(url) => {
            let store = match loading {
                Loading::Wait => delayq_redis::RedisStore::connect(&url, options).await?,
                Loading::Refuse => delayq_redis::RedisStore::connect_once(&url, options).await?,
            };
            Ok(store)
        }
        #[cfg(feature = "postgres")]
        Location::Postgres(url) => {
            let store = delayq_postgres::PostgresStore::connect(&url, options).await?;
            Ok(store)
        }
        #[cfg(feature = "remote")]
        Location::Remote(url) => {
            let store = delayq_remote::RemoteStore::connect(&url, options).await?;
            Ok(store)
        }
        #[cfg(not(all(
            feature = "sqlite",
            feature = "redis",
            feature = "postgres",
            feature = "remote"
        )))]
        _ => Err(Error::Unsupported("this store URL")),
    }
}

/// Refuses the file of an embedded store that does not exist, unless the URL says `create=true`:
/// for programs that only send or look.
pub(crate) fn refuse_missing_file(url: &str) -> Result<()> {
    let (location, _) = parse(url, StoreOptions::default())?;
    let Location::Sqlite { path, .. } = location else {
        return Ok(());
    };
    let is_asked_for = url.split(['?', '&']).any(|part| part == "create=true");
    if is_asked_for || std::path::Path::new(path).exists() {
        return Ok(());
    }
    let reason = format!(
        "there is no file {path:?}: start the application that runs its tasks first, or write \
         sqlite:{path}?create=true"
    );
    Err(Error::invalid(WHAT, reason))
}

/// The feature that a URL of this scheme needs and this build does not have.
fn missing_feature(url: &str) -> Option<&'static str> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_redis = scheme.starts_with("redis");
    let needs = [
        ("sqlite", scheme == "sqlite", cfg!(feature = "sqlite")),
        ("redis", is_redis, cfg!(feature = "redis")),
        ("postgres", is_postgres(scheme), cfg!(feature = "postgres")),
        ("remote", is_remote(scheme), cfg!(feature = "remote")),
        (
            "cluster",
            scheme.ends_with("-cluster"),
            cfg!(feature = "cluster"),
        ),
        (
            "sentinel",
            scheme.ends_with("-sentinel"),
            cfg!(feature = "sentinel"),
        ),
        ("tls", scheme.starts_with("rediss"), cfg!(feature = "tls")),
    ];
    let missing = |(_, is_needed, has): &&(&str, bool, bool)| *is_needed && !has;
    // The last missing feature: all further Redis features include `redis`.
    needs
        .iter()
        .rev()
        .find(missing)
        .map(|(feature, ..)| *feature)
}

/// True if a PostgreSQL database keeps the tasks.
fn is_postgres(scheme: &str) -> bool {
    matches!(scheme, "postgres" | "postgresql")
}

/// True if a delayq-server keeps the tasks.
fn is_remote(scheme: &str) -> bool {
    matches!(scheme, "delayq" | "delayqs")
}

/// A store URL that `Debug` does not show: it may hold passwords.
pub(crate) struct StoreUrl(pub(crate) String);

/// The default: a file in the working directory.
impl Default for StoreUrl {
    fn default() -> Self {
        Self("sqlite:delayq.sqlite".to_owned())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.split_once(':').map_or("", |(scheme, _)| scheme);
        write!(f, "{scheme}:***")
    }
}

/// The store that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Location<'a> {
    Memory,
    Sqlite {
        path: &'a str,
        /// `sync=normal`.
        relaxed: bool,
    },
    /// The URL without the parts that are options of every store.
    Redis(String),
    /// The same, for a PostgreSQL database.
    Postgres(String),
    /// The same, for a server.
    Remote(String),
}

fn parse(url: &str, mut options: StoreOptions) -> Result<(Location<'_>, StoreOptions)> {
    // A secret in a file or a variable often ends with the line break of its file.
    let url = without_break(url);
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let scheme = place.split_once(':').map(|(scheme, _)| scheme);
    let is_postgres = scheme.is_some_and(is_postgres);
    // The address of a direct connection has a login of its own.
    let has_login = |option: &str| is_postgres && option.starts_with("listen=");
    let mut own = query.split('&').filter(|option| !has_login(option));
    if own.any(|option| option.contains('@')) {
        // The text before it may be a password, so it is not shown.
        return Err(Error::invalid(
            WHAT,
            format!("it has a `?` before its `@`: write %3F for one in a password; {FORMS}"),
        ));
    }
    if is_postgres && place.matches('@').count() > 1 {
        // The client would take the end of the password for a host, and show it.
        return Err(Error::invalid(
            WHAT,
            format!("it has two `@`: write %40 for one in a password; {FORMS}"),
        ));
    }
    if scheme.is_some_and(|scheme| scheme.starts_with("redis")) {
        let url = without_class(place, query, &mut options)?;
        return Ok((Location::Redis(url), options));
    }
    if is_postgres {
        let url = without_class(place, query, &mut options)?;
        return Ok((Location::Postgres(url), options));
    }
    if scheme.is_some_and(is_remote) {
        let url = without_class(place, query, &mut options)?;
        return Ok((Location::Remote(url), options));
    }
    let (mut relaxed, mut has_class) = (false, false);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match (key, value) {
            ("durability", value) => set_class(value, &mut options, &mut has_class)?,
            ("sync", "normal") if place.starts_with("sqlite:") => relaxed = true,
            ("sync", "full") if place.starts_with("sqlite:") => relaxed = false,
            ("create", "true") if place.starts_with("sqlite:") => {}
            ("sync" | "create", _) if place.starts_with("sqlite:") => {
                let reason =
                    format!("{option:?}: write sqlite:PATH?sync=full, sync=normal or create=true");
                return Err(Error::invalid(WHAT, reason));
            }
            _ => {
                let reason = format!(
                    "unknown option {key}: write durability=memory|process|disk, and for sqlite \
                     sync=full|normal"
                );
                return Err(Error::invalid(WHAT, reason));
            }
        }
    }
    let place = match place.split_once(':') {
        Some(("memory", "")) => Location::Memory,
        Some(("sqlite", path)) => sqlite_place(path, relaxed)?,
        Some((scheme @ ("http" | "https"), _)) => {
            let secure = if scheme == "https" { "s" } else { "" };
            let reason = format!(
                "{:?} is an address of HTTP: write delayq{secure}://TOKEN@HOST:PORT/NAMESPACE for \
                 a delayq-server",
                without_secrets(place)
            );
            return Err(Error::invalid(WHAT, reason));
        }
        _ => {
            let reason = format!("unknown form {:?}: {FORMS}", without_secrets(place));
            return Err(Error::invalid(WHAT, reason));
        }
    };
    Ok((place, options))
}

fn without_break(text: &str) -> &str {
    text.trim_end_matches(['\r', '\n'])
}

/// Refuses a second durability class: one of the two would promise less than the other.
fn set_class(class: &str, options: &mut StoreOptions, has_class: &mut bool) -> Result<()> {
    if std::mem::replace(has_class, true) {
        let reason = "it has two classes: write durability=memory|process|disk|replicated once";
        return Err(Error::invalid(WHAT, reason));
    }
    options.durability = class.parse()?;
    Ok(())
}

fn sqlite_place(path: &str, relaxed: bool) -> Result<Location<'_>> {
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return Err(Error::invalid(WHAT, "it names no file: write sqlite:PATH"));
    }
    if path.trim() != path || path.contains(char::is_control) {
        let reason = "its path has a blank at an end, or a control character: write sqlite:PATH \
                      without the line break";
        return Err(Error::invalid(WHAT, reason));
    }
    if let Some(shell) = ["~", "$"].into_iter().find(|mark| path.starts_with(mark)) {
        let reason = format!(
            "its path begins with {shell}, which a shell would expand and delayq does not: write the \
             whole path, or sqlite:./{path} for a file of that name"
        );
        return Err(Error::invalid(WHAT, reason));
    }
    Ok(Location::Sqlite { path, relaxed })
}

/// The URL without its durability: every other option is the store's own.
fn without_class(place: &str, query: &str, options: &mut StoreOptions) -> Result<String> {
    let (query, fragment) = query.split_once('#').unwrap_or((query, ""));
    let mut url = place.to_owned();
    let (mut separator, mut has_class) = ('?', false);
    let options_of = query.split('&').map(without_break);
    for option in options_of.filter(|option| !option.is_empty()) {
        if let Some(class) = option.strip_prefix("durability=") {
            set_class(class, options, &mut has_class)?;
            continue;
        }
        url.push(separator);
        url.push_str(option);
        separator = '&';
    }
    if !fragment.is_empty() {
        url.push('#');
        url.push_str(fragment);
    }
    Ok(url)
}

/// A URL fit for a log: everything between its scheme and the last `@` may be a password.
fn without_secrets(url: &str) -> String {
    let Some((start, host)) = url.rsplit_once('@') else {
        return url.to_owned();
    };
    let scheme = start.split_once(':').map_or("", |(scheme, _)| scheme);
    format!("{scheme}:***@{host}")
}

fn memory(options: StoreOptions) -> Result<Arc<dyn Store>> {
    if options.durability > Durability::Memory {
        return Err(Error::Misconfigured {
            store: "the memory store".to_owned(),
            setting: "its tasks are lost with the process".to_owned(),
            fix: "use sqlite:PATH, or say memory:?durability=memory".to_owned(),
        });
    }
    let clock = Arc::new(SystemClock);
    Ok(Arc::new(MemoryStore::new(clock, options)))
}

#[cfg(feature = "sqlite")]
async fn sqlite(path: &str, options: StoreOptions, relaxed: bool) -> Result<Arc<dyn Store>> {
    use delayq_sqlite::{SqliteStore, SqliteSync};
    let sync = if relaxed {
        SqliteSync::Normal
    } else {
        SqliteSync::Full
    };
    let clock = Arc::new(SystemClock);
    Ok(SqliteStore::open_with(path, clock, options, sync).await?)
}

#[cfg(test)]
mod tests;
