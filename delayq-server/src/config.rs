//! Configuration: defaults, then a file, then the environment, then flags.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use delayq_plugin::Namespace;
use delayq_plugin::store::{Durability, StoreOptions};
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};

/// What every variable of the environment begins with.
const PREFIX: &str = "DELAYQ_";

/// The options, as the fields of [`Config`].
const OPTIONS: [&str; 6] = [
    "listen",
    "store",
    "durability",
    "pools",
    "namespaces",
    "max_message_bytes",
];

/// The configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// The URL of the store of tokens, and of namespaces without a pool.
    pub(crate) store: String,
    /// What an acknowledgement must survive: memory, process, disk or replicated.
    pub(crate) durability: String,
    /// Further stores: name and URL.
    pub(crate) pools: BTreeMap<String, String>,
    /// Declared namespaces.
    pub(crate) namespaces: BTreeMap<String, NamespaceConfig>,
    /// Most bytes of a message.
    pub(crate) max_message_bytes: usize,
}

/// Whether a variable of this name, without its prefix, is an option: others are for the command
/// line of delayq, such as `DELAYQ_URL`.
fn is_option(variable: &str) -> bool {
    let variable = variable.to_ascii_lowercase();
    let (option, _) = variable.split_once("__").unwrap_or((&variable, ""));
    OPTIONS.contains(&option)
}

/// A declared namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NamespaceConfig {
    /// The pool that its tasks are in; none: the store of the server.
    pub(crate) pool: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7880)),
            store: "sqlite:delayq-server.sqlite".to_owned(),
            durability: "process".to_owned(),
            pools: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            max_message_bytes: 256 * 1_024,
        }
    }
}

/// What is wrong with a configuration, and which line to change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file or a variable is not understood.
    #[error("{0}")]
    Unreadable(Box<figment::Error>),
    /// The file is not there.
    #[error("the configuration file {0:?} is not there")]
    Missing(PathBuf),
    /// An option cannot be used.
    #[error("{option} = {value:?}: {reason}")]
    Refused {
        option: String,
        value: String,
        reason: String,
    },
}

impl Config {
    /// Reads `file`, if one is given, and the environment, and puts `flags` over both.
    pub(crate) fn load(file: Option<&Path>, flags: impl Serialize) -> Result<Self, ConfigError> {
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
        figment = figment
            .merge(environment)
            .merge(Serialized::defaults(flags));
        let config: Self = figment
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
        let durability: Result<Durability, _> = self.durability.parse();
        durability.map(drop).map_err(|_| {
            let reason = "use memory, process, disk or replicated".to_owned();
            refused("durability".to_owned(), &self.durability, reason)
        })
    }

    /// The options of every store.
    pub(crate) fn store_options(&self) -> StoreOptions {
        StoreOptions {
            durability: self.durability.parse().unwrap_or(Durability::Process),
            ..StoreOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_go_over_the_file_and_the_file_over_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.toml");
        let text = "listen = \"127.0.0.1:1\"\nstore = \"memory:\"\n[namespaces.shop]\n";
        std::fs::write(&file, text).unwrap();
        let flags = serde_json::json!({"listen": "127.0.0.1:2"});
        let config = Config::load(Some(&file), flags).unwrap();
        assert_eq!(config.listen.port(), 2);
        assert_eq!(config.store, "memory:");
        assert!(config.namespaces.contains_key("shop"));
        assert_eq!(config.max_message_bytes, 262_144);
    }

    #[test]
    fn every_option_may_come_from_the_environment_and_other_variables_are_left() {
        let config = serde_json::to_value(Config::default()).unwrap();
        let fields = config.as_object().unwrap().keys();
        let mut fields: Vec<_> = fields.map(String::as_str).collect();
        let mut options = OPTIONS.to_vec();
        fields.sort_unstable();
        options.sort_unstable();
        assert_eq!(fields, options);
        assert!(is_option("LISTEN") && is_option("NAMESPACES__SHOP__POOL"));
        assert!(!is_option("URL") && !is_option("ACTOR") && !is_option("CONFIG"));
    }

    #[test]
    fn a_mistake_names_the_option() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.toml");
        let refused = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let loaded = Config::load(Some(&file), serde_json::json!({}));
            loaded.unwrap_err().to_string()
        };
        assert!(refused("lisen = 1").contains("lisen"));
        assert!(refused("listen = \"x\"").contains("listen"));
        assert!(refused("durability = \"x\"").contains("durability"));
        let pool = refused("[namespaces.shop]\npool = \"fast\"");
        assert!(pool.contains("add pools.fast"), "{pool}");
        assert!(refused("[namespaces.\"a b\"]").contains("a b"));
    }
}
