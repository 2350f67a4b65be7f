//! The paths of the Spring delay queue.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

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
