//! Fronts: what clients of other systems are offered.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Whether a front lets in whoever has no token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenRule {
    /// No: as everywhere else.
    #[default]
    Required,
    /// Yes, for everything in the namespace of the front. For networks without strangers.
    Optional,
}

/// The protocol of beanstalkd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BeanstalkConfig {
    /// Where it listens; none: it is not offered.
    pub listen: Option<SocketAddr>,
    /// The path of the Unix socket where it listens, too; none: there is none.
    pub socket: Option<PathBuf>,
    /// The namespace of its jobs.
    pub namespace: String,
    /// Most bytes of a job.
    pub max_job_bytes: usize,
}

impl Default for BeanstalkConfig {
    fn default() -> Self {
        Self {
            listen: None,
            socket: None,
            namespace: "default".to_owned(),
            max_job_bytes: 65_535,
        }
    }
}

impl BeanstalkConfig {
    /// Whether the protocol is offered.
    pub fn is_offered(&self) -> bool {
        self.listen.is_some() || self.socket.is_some()
    }
}

/// The verbs of Grape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrapeConfig {
    /// Where it listens; none: it is not offered.
    pub listen: Option<SocketAddr>,
    /// The namespace of its tubes, unless the token is for another one.
    pub namespace: String,
    /// Whether a client needs a token.
    pub token: TokenRule,
    /// Executions of a job after which it fails, instead of being given out again.
    pub max_executions: u32,
}

impl Default for GrapeConfig {
    fn default() -> Self {
        Self {
            listen: None,
            namespace: "default".to_owned(),
            token: TokenRule::Required,
            // More than a client that lets a time end on purpose needs, and an end for a job that
            // kills its consumers.
            max_executions: 100,
        }
    }
}

/// The name of the pool that a token without a pool belongs to.
const DEFAULT_POOL: &str = "default";

/// The API of lmstfy.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LmstfyConfig {
    /// Where it listens; none: it is not offered.
    pub listen: Option<SocketAddr>,
    /// Where its administration listens; none: it is not offered.
    pub admin_listen: Option<SocketAddr>,
    /// Users of the administration, and their passwords; none: everybody.
    pub accounts: BTreeMap<String, String>,
    /// Its pools, and the namespace that each of them is; none: the pool `default` is the
    /// namespace `default`.
    pub pools: BTreeMap<String, String>,
    /// Pools that are drained, and the pool that their new jobs go to.
    pub migrate: BTreeMap<String, String>,
    /// Whether the destruction of a queue also removes its delayed and its taken jobs.
    pub destroy_all: bool,
}

impl fmt::Debug for LmstfyConfig {
    /// Without passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LmstfyConfig")
            .field("listen", &self.listen)
            .field("admin_listen", &self.admin_listen)
            .field("accounts", &self.accounts.keys())
            .field("pools", &self.pools)
            .field("migrate", &self.migrate)
            .field("destroy_all", &self.destroy_all)
            .finish()
    }
}

impl LmstfyConfig {
    /// The pools, each with its namespace.
    pub fn all_pools(&self) -> BTreeMap<String, String> {
        if self.pools.is_empty() {
            return [(DEFAULT_POOL.to_owned(), "default".to_owned())].into();
        }
        self.pools.clone()
    }

    /// What cannot be used: the option, its value and why.
    pub(super) fn mistake(&self, declared: impl Fn(&str) -> bool) -> Option<[String; 3]> {
        let pools = self.all_pools();
        for (pool, namespace) in &pools {
            if !declared(namespace) {
                let reason = format!("declare the namespace as [namespaces.{namespace}]");
                return Some([format!("lmstfy.pools.{pool}"), namespace.clone(), reason]);
            }
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            if pool.is_empty() || !pool.bytes().all(is_word) {
                let reason = "use A-Z a-z 0-9 _ -".to_owned();
                return Some(["lmstfy.pools".to_owned(), pool.clone(), reason]);
            }
        }
        for (old, new) in &self.migrate {
            let is_end = pools.contains_key(new) && !self.migrate.contains_key(new);
            if !pools.contains_key(old) || !is_end {
                let reason = "name two pools, of which the second is not drained".to_owned();
                return Some([format!("lmstfy.migrate.{old}"), new.clone(), reason]);
            }
        }
        None
    }
}

/// The paths of the Spring delay queue.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpringConfig {
    /// Where it listens; none: it is not offered.
    pub listen: Option<SocketAddr>,
    /// `required`, `optional`, or the token of requests that bring none.
    pub token: String,
}

impl Default for SpringConfig {
    fn default() -> Self {
        Self {
            listen: None,
            token: "required".to_owned(),
        }
    }
}

impl SpringConfig {
    /// Whether a request without a token is let in.
    pub fn is_open(&self) -> bool {
        self.token == "optional"
    }

    /// The token of requests that bring none.
    pub fn usual_token(&self) -> Option<&str> {
        let is_rule = self.token == "required" || self.is_open();
        (!is_rule).then_some(&self.token)
    }
}

impl fmt::Debug for SpringConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpringConfig")
            .field("listen", &self.listen)
            .field("token", &self.usual_token().map_or(&*self.token, |_| "***"))
            .finish()
    }
}

/// The API of the public task service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaskServiceConfig {
    /// Where it listens; none: it is not offered.
    pub listen: Option<SocketAddr>,
    /// The namespace of its tasks, unless the token is for another one.
    pub namespace: String,
    /// Whether a client needs a token.
    pub token: TokenRule,
}

impl Default for TaskServiceConfig {
    fn default() -> Self {
        Self {
            listen: None,
            namespace: "default".to_owned(),
            token: TokenRule::Required,
        }
    }
}
