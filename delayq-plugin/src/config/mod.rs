//! Configuration of a plugin and of its types, from a file and the environment.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use std::{fmt, fs};

use delayq_core::store::{Durability, StoreOptions};
use delayq_core::{Error, Namespace, TypePattern};
use serde::Deserialize;

mod env;
mod error;
mod read;
mod reloaded;
#[cfg(test)]
mod tests;
mod type_options;
mod value;

pub use error::ConfigError;
pub use reloaded::{ChangedOption, Reloaded};
pub(crate) use type_options::TypeOptions;

/// Options that an operator sets without a new build: the builder's, and those of task types.
///
/// [`load`](Self::load) reads a TOML file and the environment. The top level has `url`, `cold_url`,
/// `horizon`, `namespace`, `durability`, `retention`, `call_timeout`, `threads`, `poll_interval`,
/// `max_lock_expiries`, `only`, `history`, `history_retention`, `history_buffer` and `grace`, like
/// the builder's methods; `[types."mail.*"]` has the options of `#[task_worker]`, with the same
/// names and units, and `history`. If several tables match a type, the longest pattern wins. Its
/// options replace the worker's own.
///
/// `Config` is also `Deserialize`, for a section of an application's own configuration;
/// [`from_section`](Self::from_section) has better messages.
///
/// ```
/// use delayq_plugin::Config;
///
/// # fn main() -> Result<(), delayq_plugin::ConfigError> {
/// let config = Config::parse(
///     r#"
///     url = "sqlite:tasks.sqlite"
///
///     [types."mail.*"]
///     concurrency = 8
///     fleet_rate = "100/s"
///     retry = { max = 8, base = "2s" }
///     "#,
/// )?;
/// # let _ = config;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub(crate) url: Option<Url>,
    pub(crate) cold_url: Option<Url>,
    #[serde(default, deserialize_with = "value::span")]
    pub(crate) horizon: Option<Duration>,
    pub(crate) namespace: Option<Namespace>,
    #[serde(default, deserialize_with = "value::durability")]
    pub(crate) durability: Option<Durability>,
    #[serde(default, deserialize_with = "value::span")]
    pub(crate) retention: Option<Duration>,
    #[serde(default, deserialize_with = "value::call_timeout")]
    pub(crate) call_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "value::count")]
    pub(crate) threads: Option<u32>,
    #[serde(default, deserialize_with = "value::span")]
    pub(crate) poll_interval: Option<Duration>,
    #[serde(default, deserialize_with = "value::count")]
    pub(crate) max_lock_expiries: Option<u32>,
    pub(crate) only: Option<Vec<String>>,
    #[serde(default, deserialize_with = "value::span")]
    pub(crate) grace: Option<Duration>,
    pub(crate) history: Option<Url>,
    #[serde(default, deserialize_with = "value::kept_for")]
    pub(crate) history_retention: Option<Duration>,
    pub(crate) history_buffer: Option<u64>,
    #[serde(default)]
    types: BTreeMap<Pattern, TypeOptions>,
    /// The origin of the configuration, for errors.
    #[serde(skip)]
    source: Option<String>,
}

impl Config {
    /// Reads the TOML file at `path` and applies the environment over it
    /// ([`with_env`](Self::with_env)).
    ///
    /// # Errors
    /// The file cannot be read, or the file or the environment has an unknown name or an invalid
    /// value.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => read::of_text(&file, &text)?.with_env(),
            Err(error) => Err(ConfigError::new(&file, error)),
        }
    }

    /// Reads TOML, without the environment.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        read::of_text("configuration", text)
    }

    /// Reads the section `name` of an application's own configuration, such as the table `[delayq]`
    /// of its file, without the environment. Errors read as for a file, with `name` instead of file
    /// and line; so does the error at the plugin's start for a table that no worker serves.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_section<'de, D>(name: &str, section: D) -> Result<Self, ConfigError>
    where
        D: serde::Deserializer<'de>,
    {
        read::of_section(name, section)
    }

    /// This configuration with the environment applied over it: `DELAYQ_URL` for `url`,
    /// `DELAYQ_TYPES__MAIL_SEND__CONCURRENCY` for `concurrency` of `[types."mail.send"]`.
    ///
    /// `__` separates the parts. In the name of a type `_` stands for a dot, and letters are
    /// lower-cased. All other types and patterns go into `DELAYQ_TYPES`, as TOML:
    /// `{ "mail.*" = { concurrency = 8 } }`. An unknown variable is only a warning in the log, as
    /// other programs may have set it; an unknown one below `DELAYQ_TYPES__` is an error.
    ///
    /// # Errors
    /// An invalid value, or an unknown option of a type.
    pub fn with_env(self) -> Result<Self, ConfigError> {
        env::over(self, std::env::vars_os())
    }

    /// The configuration from the environment alone, see [`with_env`](Self::with_env).
    ///
    /// # Errors
    /// As [`with_env`](Self::with_env).
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::default().with_env()
    }

    /// The store URL in this configuration, for a program that opens the store itself. It may hold
    /// a password.
    #[must_use]
    pub fn store_url(&self) -> Option<&str> {
        self.url.as_ref().map(|url| url.0.as_str())
    }

    /// The URL of the history database in this configuration. It may hold a password.
    #[must_use]
    pub fn history_url(&self) -> Option<&str> {
        self.history.as_ref().map(|url| url.0.as_str())
    }

    /// The URL of the cold store in this configuration, for a program that opens the store itself.
    /// It may hold a password.
    #[must_use]
    pub fn cold_url(&self) -> Option<&str> {
        self.cold_url.as_ref().map(|url| url.0.as_str())
    }

    /// The horizon of the cold store in this configuration.
    #[must_use]
    pub fn horizon(&self) -> Option<Duration> {
        self.horizon
    }

    /// `options` with the store settings of this configuration applied over them: `namespace`,
    /// `durability`, `retention`, `call_timeout`.
    #[must_use]
    pub fn store_options(&self, options: StoreOptions) -> StoreOptions {
        StoreOptions {
            namespace: self.namespace.clone().unwrap_or(options.namespace),
            durability: self.durability.unwrap_or(options.durability),
            retention: self.retention.unwrap_or(options.retention),
            call_timeout: self.call_timeout.unwrap_or(options.call_timeout),
            ..options
        }
    }

    /// The patterns that have a table.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &TypePattern> {
        self.types.keys().map(|pattern| &pattern.0)
    }

    /// The table for exactly this pattern.
    pub(crate) fn options(&self, pattern: &TypePattern) -> Option<&TypeOptions> {
        self.types.get(&Pattern(pattern.clone()))
    }

    /// The error for an invalid table.
    pub(crate) fn refused(
        &self,
        pattern: &impl fmt::Display,
        reason: impl fmt::Display,
    ) -> ConfigError {
        let source = self.source.as_deref().unwrap_or("configuration");
        ConfigError::new(format!("{source}, types.\"{pattern}\""), reason)
    }

    /// The plugin's options that differ in `other`, except `grace`.
    pub(crate) fn changed(&self, other: &Self) -> Vec<&'static str> {
        let options = [
            ("url", self.url != other.url),
            ("cold_url", self.cold_url != other.cold_url),
            ("horizon", self.horizon != other.horizon),
            ("namespace", self.namespace != other.namespace),
            ("durability", self.durability != other.durability),
            ("retention", self.retention != other.retention),
            ("call_timeout", self.call_timeout != other.call_timeout),
            ("threads", self.threads != other.threads),
            ("poll_interval", self.poll_interval != other.poll_interval),
            (
                "max_lock_expiries",
                self.max_lock_expiries != other.max_lock_expiries,
            ),
            ("only", self.only != other.only),
            ("history", self.history != other.history),
            (
                "history_retention",
                self.history_retention != other.history_retention,
            ),
            (
                "history_buffer",
                self.history_buffer != other.history_buffer,
            ),
        ];
        let changed = options.into_iter().filter(|(_, is_changed)| *is_changed);
        changed.map(|(option, _)| option).collect()
    }

    /// Applies `other` over this configuration.
    pub(crate) fn merge(&mut self, other: Self) {
        put(&mut self.url, other.url);
        put(&mut self.cold_url, other.cold_url);
        put(&mut self.horizon, other.horizon);
        put(&mut self.namespace, other.namespace);
        put(&mut self.durability, other.durability);
        put(&mut self.retention, other.retention);
        put(&mut self.call_timeout, other.call_timeout);
        put(&mut self.threads, other.threads);
        put(&mut self.poll_interval, other.poll_interval);
        put(&mut self.max_lock_expiries, other.max_lock_expiries);
        put(&mut self.only, other.only);
        put(&mut self.grace, other.grace);
        put(&mut self.history, other.history);
        put(&mut self.history_retention, other.history_retention);
        put(&mut self.history_buffer, other.history_buffer);
        put(&mut self.source, other.source);
        for (pattern, options) in other.types {
            self.types.entry(pattern).or_default().merge(options);
        }
    }
}

fn put<T>(place: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *place = value;
    }
}

/// A pattern of types, ordered for use as a key of the map.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Pattern(TypePattern);

impl Pattern {
    fn key(&self) -> (usize, String) {
        (self.0.rank(), self.0.to_string())
    }
}

impl TryFrom<String> for Pattern {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        TypePattern::new(&text).map(Self)
    }
}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The URL of a store, which may hold a password.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Url(pub(crate) String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
