//! The API of lmstfy.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

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

impl std::fmt::Debug for LmstfyConfig {
    /// Without passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
