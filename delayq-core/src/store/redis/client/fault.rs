//! What the client's and the server's errors mean for a caller.

use redis::{ErrorKind, RedisError};

use super::super::preflight::{GRANT, SENTINEL_GRANT};
use super::tls;
use crate::error::Error;

/// What a call loses with its answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Loss {
    /// Nothing: it only reads.
    Nothing,
    /// Whether it was applied.
    Outcome,
}

impl Loss {
    pub(super) fn of(only_reads: bool) -> Self {
        if only_reads {
            return Self::Nothing;
        }
        Self::Outcome
    }

    /// The error of a call whose answer did not come.
    pub(super) fn error(self, place: &str, detail: &str) -> Error {
        let (store, detail) = (place.to_owned(), detail.to_owned());
        match self {
            Self::Nothing => Error::Unavailable { store, detail },
            Self::Outcome => Error::Indeterminate { store, detail },
        }
    }
}

pub(super) fn is_no_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

/// Whether the server is there, and will answer once it has loaded its data or ended a script.
pub(super) fn is_busy(error: &RedisError) -> bool {
    matches!(
        error.code(),
        Some("LOADING" | "BUSY" | "MASTERDOWN" | "TRYAGAIN" | "CLUSTERDOWN")
    ) || text(error).contains("LOADING")
}

/// Whether the connection is of no more use: it broke, or its server has become a replica, and the name may
/// lead to the new primary by now.
pub(super) fn wants_new_connection(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.is_io_error() || error.code() == Some("READONLY")
}

/// A setting that the client refuses.
pub(super) fn invalid(error: &RedisError) -> Error {
    Error::InvalidInput(format!("cannot use the settings of Redis: {error}"))
}

/// Why a connection could not be made.
pub(super) fn refused(place: &str, error: &RedisError) -> Error {
    let said = text(error);
    if error.kind() == ErrorKind::RESP3NotSupported || said.contains("unknown command 'HELLO'") {
        return misconfigured(
            place,
            "it does not speak RESP3: it is older than Redis 7.0, or has renamed HELLO".to_owned(),
            "use Redis 7.0 or newer, or Valkey",
        );
    }
    if let Some(code) = error.code() {
        return understood(place, code, said).unwrap_or_else(|said| unavailable(place, &said));
    }
    if error.kind() == ErrorKind::AuthenticationFailed || said.contains("WRONGPASS") {
        return wrong_password(place, &said);
    }
    let other = || unavailable(place, &format!("cannot connect: {said}; {}", hint(place)));
    tls::distrust(place, &said).unwrap_or_else(other)
}

/// The same when what the server says holds a password: it repeats what it was sent.
pub(super) fn unspeakable(place: &str) -> Error {
    let text = "it refuses the connection, in words that hold the password; is it a Redis?";
    unavailable(place, text)
}

/// What to look at when there is no connection.
pub(super) fn hint(place: &str) -> &'static str {
    if place.starts_with("rediss:") {
        "does it speak TLS at this port? If not, write redis://"
    } else {
        "is it running at this address? If it speaks TLS there, write rediss://"
    }
}

/// Why a call failed.
pub(super) fn failed(place: &str, error: &RedisError, loss: Loss) -> Error {
    let said = text(error);
    let Some(code) = error.code() else {
        return loss.error(place, &said);
    };
    understood(place, code, said).unwrap_or_else(|said| Error::Corrupt {
        key: place.to_owned(),
        detail: said,
    })
}

/// The meaning of a refusal by the server; every one of these has changed nothing.
fn understood(place: &str, code: &str, said: String) -> Result<Error, String> {
    let store = place.to_owned();
    Ok(match code {
        "OOM" => Error::Full {
            store,
            detail: "its memory is at maxmemory: raise maxmemory, or let workers drain it"
                .to_owned(),
        },
        "MISCONF" => Error::ReadOnly {
            store,
            detail: format!("it cannot write to its disk; free space, see its log ({said})"),
        },
        "READONLY" => Error::ReadOnly {
            store,
            detail: "it is a replica: connect to its primary".to_owned(),
        },
        "LOADING" | "BUSY" | "MASTERDOWN" | "TRYAGAIN" | "CLUSTERDOWN" | "NOREPLICAS" => {
            unavailable(place, &said)
        }
        "MOVED" | "ASK" | "CROSSSLOT" => misconfigured(
            place,
            "it is a node of a cluster".to_owned(),
            "write redis-cluster://HOST:PORT for it",
        ),
        "NOAUTH" | "WRONGPASS" => wrong_password(place, &said),
        "NOPERM" => not_permitted(place, &said),
        "ERR" if said.contains("DB index") => misconfigured(
            place,
            format!("it has no database of this number ({said})"),
            "write a smaller number behind the host, or raise `databases` in its configuration",
        ),
        "WRONGTYPE" => Error::Corrupt {
            key: store,
            detail: "a key of delayq holds something else: who else writes to `delayq:*`?"
                .to_owned(),
        },
        _ if said.contains("ACL failure in script") => not_permitted(place, &said),
        _ if said.contains("max number of clients") => unavailable(place, &said),
        _ => return Err(said),
    })
}

/// Why replicas cannot be waited for until they have synced.
pub(super) fn cannot_wait(place: &str, error: &RedisError) -> Error {
    let setting = format!(
        "it cannot wait until replicas have synced a write ({})",
        text(error)
    );
    let fix = match error.code() {
        Some("NOPERM") => "let its user do so with ACL SETUSER delayq +waitaof",
        _ => "use Redis 7.2 or newer with `appendonly yes`, or write confirm=received",
    };
    misconfigured(place, setting, fix)
}

fn unavailable(place: &str, detail: &str) -> Error {
    Error::Unavailable {
        store: place.to_owned(),
        detail: detail.to_owned(),
    }
}

fn misconfigured(place: &str, setting: String, fix: &str) -> Error {
    Error::Misconfigured {
        store: place.to_owned(),
        setting,
        fix: fix.to_owned(),
    }
}

fn wrong_password(place: &str, said: &str) -> Error {
    let setting = format!("it refuses the user or the password ({said})");
    misconfigured(place, setting, LOGIN)
}

fn not_permitted(place: &str, said: &str) -> Error {
    let setting = format!("its user may not do what delayq needs ({said})");
    misconfigured(place, setting, GRANT)
}

/// The same of a sentinel, which has users of its own.
pub(super) fn of_sentinel(mut error: Error) -> Error {
    if let Error::Misconfigured { fix, .. } = &mut error {
        match fix.as_str() {
            LOGIN => SENTINEL_LOGIN.clone_into(fix),
            GRANT => SENTINEL_GRANT.clone_into(fix),
            _ => {}
        }
    }
    error
}

const LOGIN: &str = "write redis://USER:PASSWORD@HOST";

const SENTINEL_LOGIN: &str = "write sentinel_password= and, unless it is `default`, sentinel_user= behind the \
    `?` of the URL: sentinels have users of their own";

/// What the error says, without the client's words around it. A server repeats the arguments of a command that
/// it does not know, and those of HELLO are the login.
pub(super) fn text(error: &RedisError) -> String {
    let said = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    let end = said.find(", with args beginning with");
    end.and_then(|end| said.get(..end))
        .map_or_else(|| said.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error that the server has answered with.
    fn error(answer: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{answer}\r\n").as_bytes());
        match value {
            Ok(redis::Value::ServerError(error)) => error.into(),
            Err(error) => error,
            Ok(other) => panic!("{other:?} is no error"),
        }
    }

    /// What a call makes of an answer of the server.
    fn failure(answer: &str, loss: Loss) -> Error {
        failed("redis://h:1/0", &error(answer), loss)
    }

    #[test]
    fn a_refusal_by_the_server_is_never_indeterminate() {
        for answer in [
            "LOADING Redis is loading the dataset in memory",
            "BUSY Redis is busy running a script",
            "MASTERDOWN Link with MASTER is down",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN The cluster is down",
            "NOREPLICAS Not enough good replicas to write",
            "ERR max number of clients reached",
        ] {
            let error = failure(answer, Loss::Outcome);
            assert!(
                matches!(error, Error::Unavailable { .. }),
                "{answer}: {error:?}"
            );
            assert!(error.to_string().contains(answer), "{error}");
        }
        let full = failure(
            "OOM command not allowed when used memory > 'maxmemory'.",
            Loss::Outcome,
        );
        assert!(matches!(full, Error::Full { .. }), "{full:?}");
        for answer in [
            "READONLY You can't write against a read only replica.",
            "MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.",
        ] {
            let error = failure(answer, Loss::Outcome);
            assert!(
                matches!(error, Error::ReadOnly { .. }),
                "{answer}: {error:?}"
            );
        }
        for answer in [
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM User app has no permissions to run the 'hset' command",
            "ERR ACL failure in script: User app has no permissions to run the 'hset' command",
            "MOVED 3999 127.0.0.1:6381",
            "ERR DB index is out of range",
        ] {
            let error = failure(answer, Loss::Outcome);
            assert!(
                matches!(error, Error::Misconfigured { .. }),
                "{answer}: {error:?}"
            );
        }
        for answer in [
            "WRONGTYPE Operation against a key",
            "ERR user_script:12: attempt to compare",
        ] {
            let error = failure(answer, Loss::Outcome);
            assert!(
                matches!(error, Error::Corrupt { .. }),
                "{answer}: {error:?}"
            );
        }
    }

    #[test]
    fn a_key_that_holds_something_else_is_said_to_be_somebody_elses() {
        let said = failure("WRONGTYPE Operation against a key", Loss::Outcome).to_string();
        assert!(said.contains("who else writes to `delayq:*`?"), "{said}");
    }

    #[test]
    fn a_lost_answer_leaves_a_write_indeterminate_and_a_read_unavailable() {
        let broken = || RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let write = failed("redis://h:1/0", &broken(), Loss::Outcome);
        assert!(write.is_indeterminate(), "{write:?}");
        let read = failed("redis://h:1/0", &broken(), Loss::Nothing);
        assert!(matches!(read, Error::Unavailable { .. }), "{read:?}");
        assert!(wants_new_connection(&broken()));
    }

    #[test]
    fn who_is_there_and_will_answer_soon_is_known_from_who_lacks_a_script_and_from_who_refuses() {
        for code in ["LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN"] {
            let said = error(&format!("{code} a while"));
            assert!(is_busy(&said) && !is_no_script(&said), "{code}");
        }
        let missing = error("NOSCRIPT No matching script");
        assert!(is_no_script(&missing) && !is_busy(&missing));
        assert!(!is_busy(&error("ERR no")));
    }

    #[test]
    fn a_connection_that_broke_or_leads_to_a_replica_is_made_anew() {
        let io = |kind| RedisError::from(std::io::Error::from(kind));
        for useless in [
            io(std::io::ErrorKind::ConnectionReset),
            io(std::io::ErrorKind::Other),
            RedisError::from((ErrorKind::Parse, "what is no RESP")),
            error("READONLY You can't write against a read only replica."),
        ] {
            assert!(wants_new_connection(&useless), "{useless}");
        }
        for answer in ["ERR no", "OOM command not allowed", "MOVED 1 h:1"] {
            assert!(!wants_new_connection(&error(answer)), "{answer}");
        }
    }

    #[test]
    fn who_cannot_connect_is_told_what_to_change_and_no_password() {
        for (error, what) in [
            (
                error(
                    "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'hunter2'",
                ),
                "does not speak RESP3",
            ),
            (
                (ErrorKind::RESP3NotSupported, "old").into(),
                "does not speak RESP3",
            ),
            (
                (ErrorKind::AuthenticationFailed, "no").into(),
                "the user or the password",
            ),
            (
                (ErrorKind::Client, "WRONGPASS").into(),
                "the user or the password",
            ),
            (error("NOPERM no"), "may not do what delayq needs"),
        ] {
            let refused = refused("redis://h:1/0", &error);
            let said = refused.to_string();
            assert!(matches!(refused, Error::Misconfigured { .. }), "{said}");
            assert!(said.contains(what) && !said.contains("hunter2"), "{said}");
        }
        let io = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into();
        for (place, what) in [
            ("redis://h:1/0", "write rediss://"),
            ("rediss://h:1/0", "write redis://"),
        ] {
            let said = refused(place, &io()).to_string();
            assert!(said.contains(what), "{said}");
        }
    }

    #[test]
    fn a_sentinel_and_a_server_that_cannot_wait_say_what_to_write_for_them() {
        for (answer, fix) in [
            ("NOAUTH no", "sentinel_password="),
            ("NOPERM no", "on each sentinel"),
        ] {
            let said = of_sentinel(failure(answer, Loss::Nothing)).to_string();
            assert!(said.contains(fix), "{said}");
        }
        for (answer, fix) in [
            ("NOPERM no", "+waitaof"),
            ("ERR unknown command", "use Redis 7.2 or newer"),
        ] {
            let said = cannot_wait("redis://h:1/0", &error(answer)).to_string();
            assert!(said.contains(fix) && said.contains(answer), "{said}");
        }
    }
}
