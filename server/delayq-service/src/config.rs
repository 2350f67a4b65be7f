//! Configuration: defaults, overridden by a file, by the environment and by flags, in this order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use delayq_core::store::{DEFAULT_REMEMBERED, DEFAULT_RETENTION};
use delayq_core::time::MAX_DELAY;
use delayq_plugin::store::{Durability, StoreOptions};
use delayq_plugin::{ColdStore, IntoDelay, Namespace};
use figment::Figment;
use figment::error::Kind;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};

use crate::discovery::ServiceConfig;
use crate::push::{Guard, PushConfig};

mod cold;
mod error;
mod fronts;
mod history;
mod history_topic;
mod limits;
mod listeners;
mod numbers;
mod own_namespace;
mod service;
mod start;
#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;

pub use error::{ADDRESS_FORM, ConfigError};
pub use fronts::{
    BeanstalkConfig, GrapeConfig, LmstfyConfig, SpringConfig, TaskServiceConfig, TokenRule,
};
pub use history::{HistoryPlan, Recordings, TypeConfig};
pub use history_topic::HistoryTopicName;
pub use limits::{ConnectionsConfig, LimitsConfig, NamespaceLimits, StopConfig};
pub use listeners::{AdminConfig, TlsConfig};
pub use own_namespace::{OWN_NAMESPACE, is_own_namespace};
pub use start::{FirstTokenPlace, LogConfig, LogFormat};

/// The prefix of all environment variables.
const PREFIX: &str = "DELAYQ_";

/// The names of the options: the fields of [`Config`].
const OPTIONS: [&str; 32] = [
    "listen",
    "store",
    "cold_url",
    "horizon",
    "log",
    "bootstrap_token",
    "bootstrap_token_file",
    "first_token_file",
    "durability",
    "retention",
    "remembered",
    "history",
    "history_record",
    "history_retention",
    "history_topic",
    "types",
    "history_buffer",
    "pools",
    "namespaces",
    "max_message_bytes",
    "stop",
    "connections",
    "tls",
    "admin",
    "limits",
    "push",
    "service",
    "lmstfy",
    "beanstalk",
    "grape",
    "task_service",
    "spring",
];

/// The configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The address of the API.
    pub listen: SocketAddr,
    /// The URL of the store for tokens and for namespaces without a pool.
    pub store: String,
    /// The URL of the store for tasks of the far future, behind `store`; `None` means none.
    pub cold_url: Option<String>,
    /// How far ahead tasks are due that are in `store` all the same, as a span such as `1h`.
    pub horizon: String,
    /// True for a process that only looks: it marks no stores and moves no tasks to `store`.
    #[serde(skip)]
    pub is_only_looking: bool,
    /// The log.
    pub log: LogConfig,
    /// The text of the first token; only a server without tokens takes it.
    pub bootstrap_token: Option<String>,
    /// A file that has it.
    pub bootstrap_token_file: Option<PathBuf>,
    /// The file that a first start writes the first token to; `-` prints it. Without it, the token
    /// is printed on a terminal, and is otherwise in `delayq-first.token` beside an SQLite store or
    /// in the working directory.
    pub first_token_file: Option<PathBuf>,
    /// What an acknowledgement survives: memory, process, disk or replicated.
    pub durability: String,
    /// How long ended tasks are known, as a span such as `10m`; `0s` means not at all.
    pub retention: String,
    /// The number of ended tasks of a type that are known at least, however soon they follow each
    /// other.
    pub remembered: usize,
    /// The URL of the history database; without it no history is kept.
    pub history: Option<String>,
    /// What the history keeps of messages: `on` for nothing, `all`, a size such as `1kB`, or `off`
    /// to record no ends.
    pub history_record: String,
    /// How long the history keeps a life, as a span such as `365d`; without it for ever.
    pub history_retention: Option<String>,
    /// What the history does otherwise for a type, or for the types of a pattern such as `mail.*`.
    pub types: BTreeMap<String, TypeConfig>,
    /// A topic that gets a copy of the history, as `CLUSTER/TOPIC` with a cluster of `push.kafka`.
    pub history_topic: Option<String>,
    /// The maximum size of the records that wait for the history in a namespace, in bytes; without
    /// it as the store has it, at first 512 MiB.
    pub history_buffer: Option<u64>,
    /// Additional stores: name and URL.
    pub pools: BTreeMap<String, String>,
    /// Declared namespaces.
    pub namespaces: BTreeMap<String, NamespaceConfig>,
    /// The largest message, in bytes.
    pub max_message_bytes: usize,
    /// How the server stops.
    pub stop: StopConfig,
    /// Limits of connections.
    pub connections: ConnectionsConfig,
    /// TLS files.
    pub tls: TlsConfig,
    /// The web page.
    pub admin: AdminConfig,
    /// Limits of tokens and namespaces.
    pub limits: LimitsConfig,
    /// Where the server may push tasks to.
    pub push: PushConfig,
    /// How the server finds and calls instances of applications.
    pub service: ServiceConfig,
    /// The lmstfy API.
    pub lmstfy: LmstfyConfig,
    /// The beanstalkd protocol.
    pub beanstalk: BeanstalkConfig,
    /// The Grape API.
    pub grape: GrapeConfig,
    /// The API of the public task service.
    pub task_service: TaskServiceConfig,
    /// The API of the Spring delay queue.
    pub spring: SpringConfig,
}

/// Returns true if an environment variable, named without its prefix, is an option. Others belong
/// to the command line of delayq, such as `DELAYQ_URL`, or to that of the server: `DELAYQ_LOG`.
fn is_option(variable: &str) -> bool {
    let variable = variable.to_ascii_lowercase();
    if variable == "log" {
        return false;
    }
    let (option, _) = variable.split_once("__").unwrap_or((&variable, ""));
    OPTIONS.contains(&option)
}

/// Reads the configuration of `figment`, with `flags` over it. A word of the environment may look
/// like a number where a text is wanted, such as a password of digits: it is taken as it is then.
fn with_words(
    mut figment: Figment,
    flags: &Serialized<impl Serialize>,
) -> Result<Config, ConfigError> {
    let mut taken = BTreeSet::new();
    loop {
        let error = match figment.clone().merge(flags).extract() {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        let option = error.path.join(".");
        let variable = format!("{PREFIX}{}", error.path.join("__").to_uppercase());
        match (std::env::var(&variable), &error.kind) {
            (Ok(word), Kind::InvalidType(..)) if taken.insert(option.clone()) => {
                figment = figment.merge((option, word));
            }
            _ => return Err(ConfigError::Unreadable(Box::new(error))),
        }
    }
}

/// A declared namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NamespaceConfig {
    /// The pool of its tasks; `None` means the server's own store.
    pub pool: Option<String>,
    /// Its limits; an unset limit is taken from `limits.namespace`.
    pub limits: NamespaceLimits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7880)),
            store: "sqlite:delayq-server.sqlite".to_owned(),
            cold_url: None,
            horizon: cold::HORIZON.to_owned(),
            is_only_looking: false,
            log: LogConfig::default(),
            bootstrap_token: None,
            bootstrap_token_file: None,
            first_token_file: None,
            durability: "process".to_owned(),
            retention: "10m".to_owned(),
            remembered: DEFAULT_REMEMBERED,
            history: None,
            history_record: "on".to_owned(),
            history_retention: None,
            types: BTreeMap::new(),
            history_topic: None,
            history_buffer: None,
            pools: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            max_message_bytes: 256 * 1_024,
            stop: StopConfig::default(),
            connections: ConnectionsConfig::default(),
            tls: TlsConfig::default(),
            admin: AdminConfig::default(),
            limits: LimitsConfig::default(),
            push: PushConfig::default(),
            service: ServiceConfig::default(),
            lmstfy: LmstfyConfig::default(),
            beanstalk: BeanstalkConfig::default(),
            grape: GrapeConfig::default(),
            task_service: TaskServiceConfig::default(),
            spring: SpringConfig::default(),
        }
    }
}

impl Config {
    /// Reads `file`, if given, then the environment. `flags` override both.
    pub fn load(file: Option<&Path>, flags: impl Serialize) -> Result<Self, ConfigError> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        if let Some(file) = file {
            if !file.is_file() {
                return Err(ConfigError::Missing(file.to_owned()));
            }
            figment = figment.merge(Toml::file_exact(file));
        }
        let environment = Env::prefixed(PREFIX)
            .filter(|key| is_option(key.as_str()))
            .split("__");
        let flags = Serialized::defaults(flags);
        let config = with_words(figment.merge(environment), &flags)?;
        config.check()?;
        Ok(config)
    }

    /// Reads a configuration from the text of a file only.
    pub fn of_text(text: &str) -> Result<Self, ConfigError> {
        let figment = Figment::from(Serialized::defaults(Self::default()));
        let config: Self = figment
            .merge(Toml::string(text))
            .extract()
            .map_err(|error| ConfigError::Unreadable(Box::new(error)))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let refused = |option: String, value: &str, reason: String| ConfigError::Refused {
            option,
            value: value.to_owned(),
            reason,
        };
        own_namespace::check(self)?;
        self.check_namespaces()?;
        listeners::check(self)?;
        if self.tls.certificate.is_some() != self.tls.key.is_some() {
            let reason = "give tls.certificate and tls.key, or none of them".to_owned();
            return Err(refused("tls".to_owned(), "one file", reason));
        }
        if self.tls.client_ca.is_some() && self.tls.certificate.is_none() {
            let reason = "it needs tls.certificate and tls.key".to_owned();
            return Err(refused("tls.client_ca".to_owned(), "alone", reason));
        }
        numbers::check(self)?;
        limits::check(self)?;
        let declared = |name: &str| name == "default" || self.namespaces.contains_key(name);
        if let Some([option, value, reason]) = self.lmstfy.mistake(declared) {
            return Err(refused(option, &value, reason));
        }
        if let Err(bad) = Guard::new(&self.push) {
            let option = "push.allow_networks".to_owned();
            return Err(refused(option, &bad.text, bad.reason));
        }
        service::check(self)?;
        self.check_texts()?;
        let durability: Result<Durability, _> = self.durability.parse();
        durability.map(drop).map_err(|_| {
            let reason = "use memory, process, disk or replicated".to_owned();
            refused("durability".to_owned(), &self.durability, reason)
        })
    }

    /// Refuses namespaces and pools that are not declared.
    fn check_namespaces(&self) -> Result<(), ConfigError> {
        let refused = |option: String, value: &str, reason: String| ConfigError::Refused {
            option,
            value: value.to_owned(),
            reason,
        };
        for (name, namespace) in &self.namespaces {
            if let Err(error) = Namespace::new(name) {
                return Err(refused("namespaces".to_owned(), name, error.to_string()));
            }
            if let Some(pool) = &namespace.pool
                && !self.pools.contains_key(pool)
            {
                let option = format!("namespaces.{name}.pool");
                let reason = format!("there is no such pool: add pools.{pool} = \"URL\"");
                return Err(refused(option, pool, reason));
            }
        }
        for (option, namespace) in [
            ("beanstalk.namespace", &self.beanstalk.namespace),
            ("grape.namespace", &self.grape.namespace),
            ("task_service.namespace", &self.task_service.namespace),
        ] {
            if namespace != Namespace::default().as_str()
                && !self.namespaces.contains_key(namespace)
            {
                let reason = format!("there is no such namespace: add [namespaces.{namespace}]");
                return Err(refused(option.to_owned(), namespace, reason));
            }
        }
        Ok(())
    }

    /// Checks the texts that mean a span, brokers or a token.
    fn check_texts(&self) -> Result<(), ConfigError> {
        let refused = |option: &str, value: &str, reason: &str| ConfigError::Refused {
            option: option.to_owned(),
            value: value.to_owned(),
            reason: reason.to_owned(),
        };
        let retention = self.retention.as_str().into_delay();
        let retention = retention.map_err(|error| error.to_string());
        let retention =
            retention.map_err(|reason| refused("retention", &self.retention, &reason))?;
        if retention > MAX_DELAY {
            return Err(refused("retention", &self.retention, "use at most 3650d"));
        }
        if let Err(error) = history::HistoryPlan::of(self) {
            let text = error.reason.to_string();
            return Err(refused(error.option, &error.value, &text));
        }
        if let Err(reason) = self.history_topic_name() {
            let value = self.history_topic.as_deref().unwrap_or_default();
            return Err(refused("history_topic", value, &reason));
        }
        cold::check(self)?;
        for (name, cluster) in &self.push.kafka {
            if cluster.brokers.is_empty() {
                let option = format!("push.kafka.{name}.brokers");
                let reason = "name the first brokers as HOST:PORT,HOST:PORT";
                return Err(refused(&option, "", reason));
            }
        }
        if !self.spring.is_token_or_rule() {
            let reason = "use required, optional, or the text of a token";
            return Err(refused("spring.token", "***", reason));
        }
        Ok(())
    }

    /// The pool that a namespace is in until it is moved; `None` means the server's own store.
    pub fn pool_of(&self, namespace: &Namespace) -> Option<String> {
        self.namespaces.get(namespace.as_str())?.pool.clone()
    }

    /// The pool with this name; `None` for `store`, the server's own store.
    ///
    /// # Errors
    /// There is no such pool. The text lists the pools.
    pub fn destination(&self, name: &str) -> Result<Option<String>, String> {
        const STORE: &str = "store";
        if self.pools.contains_key(name) {
            return Ok(Some(name.to_owned()));
        }
        if name == STORE {
            return Ok(None);
        }
        let known: Vec<_> = self
            .pools
            .keys()
            .map(String::as_str)
            .chain([STORE])
            .collect();
        Err(format!(
            "there is no pool {name}: there are {}; add pools.{name} = \"URL\" to the configuration \
             of every server",
            known.join(", ")
        ))
    }

    /// The URL of a pool, or of the server's own store; `None` if there is no such pool.
    pub fn url_of(&self, pool: Option<&str>) -> Option<&str> {
        match pool {
            None => Some(&self.store),
            Some(pool) => self.pools.get(pool).map(String::as_str),
        }
    }

    /// The store for tasks of the far future behind this pool, or behind the server's own store;
    /// `None` if there is none.
    pub fn cold_store(&self, pool: Option<&str>) -> Option<ColdStore> {
        match pool {
            None => cold::of(self),
            Some(_) => None,
        }
    }

    /// Where a first start writes the first token.
    pub fn first_token_place(&self, is_terminal: bool) -> FirstTokenPlace {
        start::first_token_place(self, is_terminal)
    }

    /// The text of the first token, if the configuration gives it, in itself or in a file.
    ///
    /// # Errors
    /// It is given twice, or the file cannot be read or is empty.
    pub fn given_token(&self) -> Result<Option<String>, ConfigError> {
        start::given_token(self)
    }

    /// The history, if there is one.
    pub fn history_plan(&self) -> Option<HistoryPlan> {
        // Cannot fail: the configuration was checked.
        HistoryPlan::of(self).ok().flatten()
    }

    /// The topic that gets a copy of the history, if there is one.
    ///
    /// # Errors
    /// A text that says what to write.
    pub fn history_topic_name(&self) -> Result<Option<HistoryTopicName>, String> {
        HistoryTopicName::of(self)
    }

    /// Whether the ends of tasks are recorded, and what of their messages.
    pub fn recordings(&self) -> Recordings {
        // Cannot fail: the configuration was checked.
        history::recordings(self).unwrap_or_default()
    }

    /// The options for opening any store.
    pub fn store_options(&self) -> StoreOptions {
        StoreOptions {
            durability: self.durability.parse().unwrap_or(Durability::Process),
            retention: self
                .retention
                .as_str()
                .into_delay()
                .unwrap_or(DEFAULT_RETENTION),
            remembered: self.remembered,
            history_buffer: self.history_buffer,
            ..StoreOptions::default()
        }
    }
}
