//! Opening the store that a URL names.

use std::fmt;
use std::sync::Arc;

use delayq_core::store::{Durability, StoreOptions};
use delayq_core::{Error, Result, Store, SystemClock};

/// The forms that a store URL may have, for error messages.
const FORMS: &str = "use memory:, sqlite:PATH, redis://HOST:PORT/DB, redis-sentinel://HOST:PORT,HOST:PORT/MASTER \
    or redis-cluster://HOST:PORT,HOST:PORT; rediss for TLS";

/// Opens the store that `url` names and checks that it can keep what `options` ask for.
///
/// - `memory:` for tests: lost with the process, so it asks for `?durability=memory` or the option.
/// - `sqlite:PATH`: the embedded store in one file, made if it is not there. `?sync=normal` trades the
///   last commits before a power loss for speed (class `process` instead of `disk`).
/// - `redis://[USER:PASSWORD@]HOST[:PORT][/DB]`, and `rediss://` for TLS. [`RedisConfig`] has the options of
///   such a URL.
///
/// `?durability=memory|process|disk` overrides the option: the weakest class that will do.
///
/// [`RedisConfig`]: delayq_core::store::RedisConfig
///
/// # Errors
/// [`Error::InvalidInput`] for a URL of another form; [`Error::Misconfigured`], with the line to change,
/// when the store cannot keep the durability class; whatever the store says when it cannot be opened.
pub async fn open_store(url: &str, options: StoreOptions) -> Result<Arc<dyn Store>> {
    let (place, options) = parse(url, options)?;
    match place {
        Place::Memory => memory(options),
        #[cfg(feature = "sqlite")]
        Place::Sqlite { path, relaxed } => sqlite(path, options, relaxed).await,
        #[cfg(not(feature = "sqlite"))]
        Place::Sqlite { path, relaxed } => Err(missing_feature("sqlite", (path, options, relaxed))),
        #[cfg(feature = "redis")]
        Place::Redis(url) => redis(&url, options).await,
        #[cfg(not(feature = "redis"))]
        Place::Redis(url) => Err(missing_feature("redis", (url, options))),
    }
}

/// A store URL that `Debug` does not show: it may hold passwords.
pub(crate) struct StoreUrl(pub(crate) String);

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.split_once(':').map_or("", |(scheme, _)| scheme);
        write!(f, "{scheme}:***")
    }
}

/// What a store URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place<'a> {
    Memory,
    Sqlite {
        path: &'a str,
        /// `sync=normal`.
        relaxed: bool,
    },
    /// The URL without what stands in the options of every store.
    Redis(String),
}

fn parse(url: &str, mut options: StoreOptions) -> Result<(Place<'_>, StoreOptions)> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    if query.contains('@') {
        // What stands before it may be a password, and is not shown.
        return Err(Error::InvalidInput(format!(
            "the store URL has a `?` before its `@`: write %3F for one in a password; {FORMS}"
        )));
    }
    let scheme = place.split_once(':').map(|(scheme, _)| scheme);
    if scheme.is_some_and(|scheme| scheme.starts_with("redis")) {
        let place = redis_place(place, query, &mut options)?;
        return Ok((place, options));
    }
    let (mut relaxed, mut has_class) = (false, false);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match (key, value) {
            ("durability", value) => set_class(value, &mut options, &mut has_class)?,
            ("sync", "normal") if place.starts_with("sqlite:") => relaxed = true,
            ("sync", "full") if place.starts_with("sqlite:") => relaxed = false,
            _ => {
                return Err(Error::InvalidInput(format!(
                    "unknown option {key} in the store URL: durability=memory|process|disk, \
                     and for sqlite sync=full|normal"
                )));
            }
        }
    }
    let place = match place.split_once(':') {
        Some(("memory", "")) => Place::Memory,
        Some(("sqlite", path)) => sqlite_place(path, relaxed)?,
        _ => {
            return Err(Error::InvalidInput(format!(
                "unknown store URL {:?}: {FORMS}",
                without_secrets(place)
            )));
        }
    };
    Ok((place, options))
}

/// Each of two would be right by itself, and one of them promises less.
fn set_class(class: &str, options: &mut StoreOptions, has_class: &mut bool) -> Result<()> {
    if std::mem::replace(has_class, true) {
        let text =
            "the store URL has two classes: write durability=memory|process|disk|replicated once";
        return Err(Error::InvalidInput(text.to_owned()));
    }
    options.durability = class.parse()?;
    Ok(())
}

fn sqlite_place(path: &str, relaxed: bool) -> Result<Place<'_>> {
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return Err(Error::InvalidInput(
            "the store URL names no file: write sqlite:PATH".to_owned(),
        ));
    }
    Ok(Place::Sqlite { path, relaxed })
}

/// Takes the durability out; every other option is the Redis store's.
fn redis_place(place: &str, query: &str, options: &mut StoreOptions) -> Result<Place<'static>> {
    let (query, fragment) = query.split_once('#').unwrap_or((query, ""));
    let mut url = place.to_owned();
    let (mut separator, mut has_class) = ('?', false);
    for option in query.split('&').filter(|option| !option.is_empty()) {
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
    Ok(Place::Redis(url))
}

/// A URL fit for a log: whatever stands between its scheme and the last `@` may be a password.
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
    Ok(Arc::new(delayq_core::store::MemoryStore::new(
        Arc::new(SystemClock),
        options,
    )))
}

#[cfg(feature = "sqlite")]
async fn sqlite(path: &str, options: StoreOptions, relaxed: bool) -> Result<Arc<dyn Store>> {
    use delayq_core::store::{SqliteStore, SqliteSync};
    let sync = if relaxed {
        SqliteSync::Normal
    } else {
        SqliteSync::Full
    };
    Ok(SqliteStore::open_with(path, Arc::new(SystemClock), options, sync).await?)
}

#[cfg(feature = "redis")]
async fn redis(url: &str, options: StoreOptions) -> Result<Arc<dyn Store>> {
    Ok(delayq_core::store::RedisStore::connect(url, options).await?)
}

#[cfg(not(all(feature = "sqlite", feature = "redis")))]
fn missing_feature<T>(name: &str, _unused: T) -> Error {
    Error::InvalidInput(format!(
        "this build has no {name} store: enable the feature {name} of delayq-plugin"
    ))
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    /// The builder has derived its `Debug` from a URL in the clear.
    #[test]
    fn a_builder_does_not_show_the_password_of_its_url() {
        for url in [
            "redis://user:hunter2@h/0",
            "redis-sentinel://h/orders?sentinel_password=hunter2",
        ] {
            let builder = crate::DelayQueuePlugin::builder().url(url);
            let shown = format!("{builder:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(shown.contains("redis"), "{shown}");
        }
    }

    #[test]
    fn a_class_that_is_given_twice_is_refused() {
        for place in ["memory:", "sqlite:a", "redis://h"] {
            let url = format!("{place}?durability=disk&durability=memory");
            let refused = parse(&url, StoreOptions::default()).unwrap_err();
            assert!(refused.to_string().contains("once"), "{refused}");
        }
    }

    #[test]
    fn options_of_the_redis_store_are_left_to_it() {
        let of = |url| parse(url, StoreOptions::default()).unwrap();
        for (url, rest) in [
            ("redis://h/0?durability=disk", "redis://h/0"),
            (
                "rediss://h?ca=a&durability=disk&replicas=2#insecure",
                "rediss://h?ca=a&replicas=2#insecure",
            ),
            (
                "rediss-cluster://a,b#insecure?durability=disk",
                "rediss-cluster://a,b#insecure",
            ),
        ] {
            let (place, options) = of(url);
            assert_eq!(place, Place::Redis(rest.to_owned()), "{url}");
            assert_eq!(options.durability, Durability::Disk, "{url}");
        }
    }
}
