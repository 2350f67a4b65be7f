//! Whose a token is.

use serde::{Deserialize, Serialize};

use super::queue_name::hash;

/// A token, by its pool and namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct TokenKey {
    pub(super) pool: String,
    pub(super) namespace: String,
    pub(super) token: String,
}

impl TokenKey {
    pub(super) fn new(pool: &str, namespace: &str, token: &str) -> Self {
        Self {
            pool: pool.to_owned(),
            namespace: namespace.to_owned(),
            token: token.to_owned(),
        }
    }

    /// The name of its document. Neither a pool nor a namespace has a slash.
    pub(super) fn document(&self) -> String {
        hash(&format!("{}/{}/{}", self.pool, self.namespace, self.token))
    }
}

/// The pool and the token of `POOL:TOKEN`; a token alone is of the pool `default`.
pub(super) fn split_token(text: &str) -> (&str, &str) {
    match text.split_once(':') {
        Some((pool, token)) => (pool_or_default(pool), token),
        None => (pool_or_default(""), text),
    }
}

/// A pool by its name; no name is that of the pool `default`.
pub(super) fn pool_or_default(pool: &str) -> &str {
    if pool.is_empty() { "default" } else { pool }
}
