//! Redirects: a server's answer to a command that belongs to another server.

use redis::RedisError;

use delayq_core::Error;

use crate::config::Address;

/// The target of a command that was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The node that has its slot.
    Moved(Address),
    /// The node that is taking over its slot, only this once.
    Ask(Address),
    /// None yet: its keys are moving to another node, or a master is being elected.
    Later(String),
}

impl Redirect {
    /// The redirect in an `error` of the server at `place`; `None` for any other error.
    pub(super) fn of(error: &RedisError, place: &str) -> Option<Self> {
        let said = error.detail().unwrap_or_default();
        match error.code()? {
            "MOVED" => target(said, place).map(Self::Moved),
            "ASK" => target(said, place).map(Self::Ask),
            code @ ("TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY") => {
                Some(Self::Later(format!("{code} {said}")))
            }
            _ => None,
        }
    }

    /// The error for a caller that has no time left.
    pub(super) fn unavailable(&self, place: &str) -> Error {
        match self {
            Self::Later(said) => Error::unavailable(place, said),
            Self::Moved(owner) | Self::Ask(owner) => {
                Error::unavailable(place, format!("it sends to {owner}"))
            }
        }
    }
}

/// Parses `SLOT HOST:PORT`. A node that does not know its own host leaves the host out, and means
/// the address at which it was asked.
fn target(said: &str, place: &str) -> Option<Address> {
    let (host, port) = said.split_once(' ')?.1.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = match host {
        "" | "?" => host_of(place)?,
        host => host,
    };
    Some(Address::new(host, port.trim().parse().ok()?))
}

/// The host in `redis://HOST:PORT/DB`.
fn host_of(place: &str) -> Option<&str> {
    let (host, _) = place.split_once("//")?.1.rsplit_once(':')?;
    Some(host.trim_start_matches('[').trim_end_matches(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(answer: &str) -> Option<Redirect> {
        let value = redis::parse_redis_value(format!("-{answer}\r\n").as_bytes()).unwrap();
        let redis::Value::ServerError(error) = value else {
            panic!("{value:?} is no error");
        };
        Redirect::of(&error.into(), "redis://[::2]:7000/0")
    }

    #[test]
    fn a_redirect_names_a_node() {
        let node = |host: &str| Address::new(host, 6381);
        for (answer, host) in [
            ("MOVED 3999 127.0.0.1:6381", "127.0.0.1"),
            ("MOVED 3999 ::1:6381", "::1"),
            ("MOVED 3999 [::1]:6381", "::1"),
            ("MOVED 3999 :6381", "::2"),
            ("MOVED 3999 ?:6381", "::2"),
            ("MOVED 3999 node-3.example:6381", "node-3.example"),
        ] {
            let expected = Some(Redirect::Moved(node(host)));
            assert_eq!(redirect(answer), expected, "{answer}");
            let ask = redirect(&answer.replace("MOVED", "ASK"));
            assert_eq!(ask, Some(Redirect::Ask(node(host))));
        }
    }

    #[test]
    fn what_is_no_redirect_is_none() {
        for answer in [
            "MOVED",
            "MOVED 1",
            "MOVED 1 h",
            "ASK 1 h:x",
            "ERR no",
            "OOM command",
        ] {
            assert_eq!(redirect(answer), None, "{answer}");
        }
        for answer in ["TRYAGAIN Multiple keys", "CLUSTERDOWN The cluster is down"] {
            assert_eq!(redirect(answer), Some(Redirect::Later(answer.to_owned())));
        }
    }
}
