//! Limits of tokens and namespaces.

use serde::{Deserialize, Serialize};

/// Limits of every token, and of every namespace without limits of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Most requests a second of a token that has no rate of its own; none: no limit.
    pub token_rate: Option<u32>,
    /// The limits of a namespace that has none of its own.
    pub namespace: NamespaceLimits,
}

/// Limits of a namespace. Each server counts its own requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NamespaceLimits {
    /// Most requests a second of all tokens together; none: no limit.
    pub rate: Option<u32>,
    /// Most tasks of all types that are scheduled or running, roughly; none: no limit.
    pub max_pending: Option<u64>,
    /// Most bytes of a message, where less than those of the server.
    pub max_message_bytes: Option<usize>,
}

impl NamespaceLimits {
    /// These limits, and those of `other` where there is none.
    pub fn or(&self, other: &Self) -> Self {
        Self {
            rate: self.rate.or(other.rate),
            max_pending: self.max_pending.or(other.max_pending),
            max_message_bytes: self.max_message_bytes.or(other.max_message_bytes),
        }
    }
}
