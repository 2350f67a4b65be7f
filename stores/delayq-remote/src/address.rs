//! The URL of a server.

use std::fmt;
use std::path::PathBuf;

use delayq_core::{Error, Namespace, Result};
use percent_encoding::percent_decode_str;

/// The name of the URL in errors.
const WHAT: &str = "store URL";
/// The port of a server that names none.
const PORT: u16 = 7_880;
const FORM: &str = "write delayq://TOKEN@HOST:PORT/NAMESPACE, or delayqs:// for TLS";

/// The address of a server, and the token for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) has_tls: bool,
    /// Host and port.
    pub(crate) authority: String,
    pub(crate) token: String,
    /// The namespace in the URL, if it has one.
    pub(crate) namespace: Option<Namespace>,
    /// The file of the certificates to trust instead of the system's.
    pub(crate) ca: Option<PathBuf>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shown without the token.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.has_tls { "delayqs" } else { "delayq" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl Address {
    /// Parses a URL.
    pub(crate) fn read(url: &str) -> Result<Self> {
        let invalid = |reason: &str| Error::invalid(WHAT, format!("{reason}: {FORM}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("no scheme"))?;
        let has_tls = match scheme {
            "delayq" => false,
            "delayqs" => true,
            _ => return Err(invalid("another scheme")),
        };
        let (token, rest) = rest
            .rsplit_once('@')
            .ok_or_else(|| invalid("it has no token"))?;
        let token = decoded(token).ok_or_else(|| invalid("its token is not readable"))?;
        let is_header = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.is_empty() || !is_header {
            return Err(invalid("it has no token that can be sent"));
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = place.split_once('/').unwrap_or((place, ""));
        if host.is_empty() || host.contains([' ', '#', '\\']) {
            return Err(invalid("it names no host"));
        }
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port {
            host.to_owned()
        } else {
            format!("{host}:{PORT}")
        };
        let path = decoded(path).ok_or_else(|| invalid("its namespace is not readable"))?;
        let namespace = (!path.is_empty()).then(|| Namespace::new(path));
        Ok(Self {
            has_tls,
            authority,
            token,
            namespace: namespace.transpose()?,
            ca: ca(query, has_tls)?,
        })
    }
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    Some(text.into_owned())
}

/// The option `ca` of a URL.
fn ca(query: &str, has_tls: bool) -> Result<Option<PathBuf>> {
    let mut ca = None;
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("ca", file)) if has_tls => {
                // Refused rather than ignored: otherwise the system's authorities would be trusted
                // instead.
                let unreadable = || Error::invalid(WHAT, "the file of ca= is not readable text");
                let file = decoded(file).filter(|file| !file.is_empty());
                ca = Some(PathBuf::from(file.ok_or_else(unreadable)?));
            }
            Some(("ca", _)) => {
                let reason = "ca= is for TLS: write delayqs:// with it";
                return Err(Error::invalid(WHAT, reason));
            }
            _ => {
                let key = option.split('=').next().unwrap_or_default();
                let reason =
                    format!("unknown option {key}: there are ca=FILE and durability=CLASS");
                return Err(Error::invalid(WHAT, reason));
            }
        }
    }
    Ok(ca)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_server_token_and_namespace() {
        let address = Address::read("delayq://dq_1_s%40@[::1]:7000/shop").unwrap();
        assert_eq!(address.token, "dq_1_s@");
        assert_eq!(address.authority, "[::1]:7000");
        assert_eq!(address.namespace, Some(Namespace::new("shop").unwrap()));
        assert_eq!(address.to_string(), "delayq://[::1]:7000");
        let address = Address::read("delayqs://t@queue.example?ca=/etc/ca.pem").unwrap();
        assert_eq!(address.authority, "queue.example:7880");
        assert_eq!(address.ca, Some(PathBuf::from("/etc/ca.pem")));
        assert!(address.has_tls && address.namespace.is_none());
    }

    #[test]
    fn a_mistake_is_refused_and_the_token_is_not_shown() {
        for bad in [
            "delayqs:secret@host",
            "delayq://host:7880/shop",
            "delayq://@host",
            "delayq://secret@",
            "delayq://sec ret@host",
            "delayq://secret@host/a b",
            "delayq://secret@host?tls=true",
            "delayq://secret@host?ca=/file",
            "delayqs://secret@host?ca=%ff",
            "delayqs://secret@host?ca=",
            "http://secret@host",
        ] {
            let error = Address::read(bad).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let address = Address::read("delayq://secret@host").unwrap();
        assert!(!format!("{address:?}").contains("secret"));
    }
}
