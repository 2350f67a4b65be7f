//! Options of fronts: the APIs for clients of other systems.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Whether a front admits callers without a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenRule {
    /// Refuses callers without a token, as all other APIs do.
    #[default]
    Required,
    /// Admits callers without a token to everything in the namespace of the front. For trusted
    /// networks only.
    Optional,
}

/// Options of the beanstalkd protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BeanstalkConfig {
    /// The TCP address; `None` means no TCP listener.
    pub listen: Option<SocketAddr>,
    /// The path of a Unix socket to listen on as well; `None` means no socket.
    pub socket: Option<PathBuf>,
    /// The namespace of its jobs.
    pub namespace: String,
    /// The largest job, in bytes.
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
    /// Returns true if the protocol has a listener.
    pub fn is_offered(&self) -> bool {
        self.listen.is_some() || self.socket.is_some()
    }
}

/// Options of the Grape API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrapeConfig {
    /// The address; `None` switches the API off.
    pub listen: Option<SocketAddr>,
    /// The namespace of its tubes, unless the token names another.
    pub namespace: String,
    /// Whether a client needs a token.
    pub token: TokenRule,
    /// The number of executions after which a job fails instead of being handed out again.
    pub max_executions: u32,
}

impl Default for GrapeConfig {
    fn default() -> Self {
        Self {
            listen: None,
            namespace: "default".to_owned(),
            token: TokenRule::Required,
            // More than a client needs that lets locks expire on purpose, and still a limit for a
            // job that kills its consumers.
            max_executions: 100,
        }
    }
}

/// The pool of a token that names no pool.
const DEFAULT_POOL: &str = "default";

/// Options of the lmstfy API.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LmstfyConfig {
    /// The address; `None` switches the API off.
    pub listen: Option<SocketAddr>,
    /// The address of the admin API; `None` switches the admin API off.
    pub admin_listen: Option<SocketAddr>,
    /// Users of the admin API and their passwords; empty admits everybody.
    pub accounts: BTreeMap<String, String>,
    /// The pools and the namespace of each. If empty, the pool `default` is the namespace
    /// `default`.
    pub pools: BTreeMap<String, String>,
    /// True if destroying a queue also removes its delayed and its taken jobs.
    pub destroy_all: bool,
}

impl fmt::Debug for LmstfyConfig {
    /// Leaves out the passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LmstfyConfig")
            .field("listen", &self.listen)
            .field("admin_listen", &self.admin_listen)
            .field("accounts", &self.accounts.keys())
            .field("pools", &self.pools)
            .field("destroy_all", &self.destroy_all)
            .finish()
    }
}

impl LmstfyConfig {
    /// All pools, with the namespace of each.
    pub fn all_pools(&self) -> BTreeMap<String, String> {
        if self.pools.is_empty() {
            return [(DEFAULT_POOL.to_owned(), "default".to_owned())].into();
        }
        self.pools.clone()
    }

    /// The first unusable option: its name, its value and the reason.
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
        None
    }
}

/// Options of the Spring delay queue API.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpringConfig {
    /// The address; `None` switches the API off.
    pub listen: Option<SocketAddr>,
    /// `required`, `optional`, or the token to use for requests without one.
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
    /// Returns true if a request without a token is admitted.
    pub fn is_open(&self) -> bool {
        self.token == "optional"
    }

    /// Returns true if `token` can mean something.
    pub(super) fn is_token_or_rule(&self) -> bool {
        // Every token begins so.
        let is_token = |text: &str| text.starts_with("dq_");
        self.usual_token().is_none_or(is_token)
    }

    /// The token used for requests without one.
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

/// Options of the public task service API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaskServiceConfig {
    /// The address; `None` switches the API off.
    pub listen: Option<SocketAddr>,
    /// The namespace of its tasks, unless the token names another.
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
