//! The API of the public task service.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::TokenRule;

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
