//! Whether a front lets in whoever has no token.

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
