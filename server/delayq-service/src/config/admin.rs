//! The listener of the web page.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The listener of the web page and its sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Where the web page listens; none: there is no web page.
    pub listen: Option<SocketAddr>,
    /// After how many minutes a session ends.
    pub session_minutes: u32,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: None,
            session_minutes: 480,
        }
    }
}
