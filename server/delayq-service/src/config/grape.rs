//! The verbs of Grape.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::TokenRule;

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
