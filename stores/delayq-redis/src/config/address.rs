//! Address of a server.

use std::fmt;
use std::net::Ipv6Addr;

/// The longest host name in the domain name system.
const MAX_HOST: usize = 253;

/// A host and a port, or a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name, an IPv4 address, an IPv6 address without brackets, or the path of a socket.
    pub host: String,
    /// The port; 0 for a socket.
    pub port: u16,
}

impl Address {
    /// `host` and `port`; an IPv6 address is written without brackets.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        Self { host, port }
    }

    /// The Unix socket at the absolute `path`.
    #[must_use]
    pub fn socket(path: impl Into<String>) -> Self {
        Self::new(path, 0)
    }

    /// The path, if it is a Unix socket.
    pub(crate) fn path(&self) -> Option<&str> {
        let is_path = self.host.starts_with('/');
        is_path.then_some(self.host.as_str())
    }

    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.path().is_some() {
            return cfg!(not(unix)).then_some("there are no Unix sockets here: give HOST:PORT");
        }
        if ["0.0.0.0", "::"].contains(&self.host.as_str()) {
            return Some("a server listens on 0.0.0.0 or ::, but cannot be reached at it");
        }
        if self.port == 0 {
            return Some("a port is 0: give 1 to 65535");
        }
        let is_letter = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let is_name = (1..=MAX_HOST).contains(&self.host.len()) && self.host.chars().all(is_letter);
        if is_name || self.host.parse::<Ipv6Addr>().is_ok() {
            return None;
        }
        Some("a host is missing or not one: a name in ASCII, or an address, an IPv6 one as [::1]")
    }
}

/// `HOST:PORT` as written in a URL, with brackets around an IPv6 address; for a socket its path.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.path() {
            return f.write_str(path);
        }
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}
