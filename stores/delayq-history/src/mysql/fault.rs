//! Errors of the server and the client, and their meaning for a caller. The only place that reads
//! the numbers of errors.

use delayq_core::error::Error;
use mysql_async::{DriverError, IoError, ServerError};

/// What a server has to be.
pub(super) const VERSIONS: &str = "use MySQL 8.0 or newer, or MariaDB 10.6 or newer";

/// The reason why a statement failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server or the connection refused.
    Sql(mysql_async::Error),
    /// The history refused.
    Own(Error),
}

/// The result of a statement.
pub(super) type Outcome<T> = std::result::Result<T, Fault>;

impl From<mysql_async::Error> for Fault {
    fn from(error: mysql_async::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

/// The server took back one of two transactions: a deadlock, or a lock that was waited for.
const AGAIN: [u16; 2] = [1_205, 1_213];

/// The server ends the session: it stops, or somebody killed the connection.
const ENDS: [u16; 4] = [1_053, 1_927, 3_169, 4_031];

/// No partition takes a row.
const NO_PARTITION: u16 = 1_526;

/// There is no partition of this name.
const UNKNOWN_PARTITION: [u16; 2] = [1_507, 1_735];

impl Fault {
    fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Sql(mysql_async::Error::Server(error)) => Some(error),
            _ => None,
        }
    }

    fn has_code(&self, codes: &[u16]) -> bool {
        self.server()
            .is_some_and(|error| codes.contains(&error.code))
    }

    /// True if the statement may be repeated: another transaction was in its way.
    pub(super) fn is_conflict(&self) -> bool {
        self.has_code(&AGAIN)
    }

    /// True if a row has no partition.
    pub(super) fn lacks_partition(&self) -> bool {
        self.has_code(&[NO_PARTITION])
    }

    /// True if a partition is not there that a statement names.
    pub(super) fn lacks_named_partition(&self) -> bool {
        self.has_code(&UNKNOWN_PARTITION)
    }

    /// True if the connection can no longer be used.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Sql(mysql_async::Error::Server(_)) => self.has_code(&ENDS),
            Self::Sql(_) => true,
        }
    }

    /// True if the server has no TLS.
    pub(super) fn lacks_tls(&self) -> bool {
        matches!(
            self,
            Self::Sql(mysql_async::Error::Driver(
                DriverError::NoClientSslFlagFromServer
            ))
        )
    }

    /// The error for a call. `is_in_doubt`: a write was sent, and no answer may say whether it was
    /// applied.
    pub(super) fn error(&self, place: &str, is_in_doubt: bool) -> Error {
        let error = match self {
            Self::Own(error) => return error.clone(),
            Self::Sql(error) => error,
        };
        if let mysql_async::Error::Server(said) = error
            && !self.ends_connection()
        {
            return understood(place, said).unwrap_or_else(|| {
                Error::unavailable(place, format!("{} ({})", said.message, said.code))
            });
        }
        if self.lacks_tls() {
            return Error::misconfigured(
                place,
                "the server has no TLS, which sslmode asks for",
                "give the server a certificate, or set sslmode=prefer or disable",
            );
        }
        if let mysql_async::Error::Driver(DriverError::UnknownAuthPlugin { name }) = error {
            return Error::misconfigured(
                place,
                format!("the server wants the authentication {name:?}, which is not supported"),
                "give the user a password with caching_sha2_password or mysql_native_password",
            );
        }
        if distrusts(error) {
            return Error::misconfigured(
                place,
                error.to_string(),
                "give sslrootcert the authority that signed the certificate of the server",
            );
        }
        if is_in_doubt {
            return Error::indeterminate(place, error.to_string());
        }
        Error::unavailable(place, error.to_string())
    }
}

/// The meaning of a refusal by the server that has changed nothing; `None` for others.
fn understood(place: &str, said: &ServerError) -> Option<Error> {
    let message = &said.message;
    let setting = |fix: &str| Error::misconfigured(place, message.clone(), fix);
    let full = |what: &str| Error::full(place, format!("{message}: {what}"));
    Some(match said.code {
        1_045 | 1_698 => setting("check user and password in the URL"),
        1_044 | 1_142 | 1_143 | 1_227 | 1_370 | 1_449 => {
            setting("GRANT ALL ON the database TO the user, or connect as another one")
        }
        1_049 => setting("create it: CREATE DATABASE name"),
        1_129 | 1_130 => setting("let the server take connections from this host"),
        3_159 | 4_152 => setting("set sslmode=require in the URL"),
        1_290 | 1_792 | 1_836 | 3_100 => Error::read_only(
            place,
            format!("{message}: it is a replica, or read_only is on; name the primary"),
        ),
        1_021 | 1_114 => full("free space on the disk of the database"),
        // Errors of the file system, with the number of the system in their text.
        3 | 1_026 | 1_030 if ["28", "122"].iter().any(|no| names_number(message, no)) => {
            full("free space on the disk of the database")
        }
        1_037 | 1_038 | 1_041 => full("the server is out of memory"),
        1_153 => setting("raise max_allowed_packet of the server"),
        1_193 | 1_064 => setting(VERSIONS),
        1_146 | 1_356 => Error::corrupt(
            place,
            format!(
                "{message}: a table of the history is gone; restart the program, which makes what \
                 is missing, or restore a backup"
            ),
        ),
        1_054 | 1_264 | 1_265 | 1_366 | 1_406 => {
            setting("a table of the history was changed: give it back the columns that delayq made")
        }
        1_286 => setting("start the server with InnoDB"),
        1_665 => setting("set binlog_format = ROW or MIXED on the server"),
        1_969 | 3_024 => Error::unavailable(
            place,
            format!("{message}: search a shorter span of time, or raise call_timeout"),
        ),
        _ => return None,
    })
}

/// True if the certificate of the server is not trusted.
fn distrusts(error: &mysql_async::Error) -> bool {
    let mysql_async::Error::Io(IoError::Io(error)) = error else {
        return false;
    };
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
}

/// True if a text has this number as a word.
fn names_number(text: &str, number: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit())
        .any(|word| word == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let said = |code, message: &str| {
            let error = ServerError {
                code,
                message: message.to_owned(),
                state: "HY000".to_owned(),
            };
            Fault::Sql(mysql_async::Error::Server(error)).error("db", true)
        };
        let space = r#"Error writing file './d/lives.ibd' (Errcode: 28 "No space left on device")"#;
        assert!(matches!(said(3, space), Error::Full { .. }));
        assert!(matches!(said(3, "(Errcode: 5)"), Error::Unavailable { .. }));
        assert!(matches!(said(1_290, "--read-only"), Error::ReadOnly { .. }));
        assert!(
            said(1_049, "Unknown database 'd'")
                .to_string()
                .contains("CREATE DATABASE")
        );
        assert!(matches!(
            said(1_053, "shutdown"),
            Error::Indeterminate { .. }
        ));
        assert!(matches!(said(1_213, "deadlock"), Error::Unavailable { .. }));
    }
}
