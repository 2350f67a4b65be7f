//! Errors of the server and the client, and their meaning for a caller. The only place that reads
//! SQLSTATE codes.

use delayq_core::Error;
use tokio_postgres::error::{DbError, Severity};

/// The reason why a statement failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server or the connection refused.
    Sql(tokio_postgres::Error),
    /// This store refused.
    Own(Error),
    /// A write is applied, and the server no longer waits for the standby that was to have it.
    Unreplicated,
}

/// The result of a statement.
pub(crate) type Outcome<T> = std::result::Result<T, Fault>;

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

/// SQLSTATE codes that end with time: a conflict of two transactions, of which the server has taken
/// one back.
const AGAIN: [&str; 3] = ["40001", "40P01", "55P03"];

impl Fault {
    fn server(&self) -> Option<&DbError> {
        match self {
            Self::Sql(error) => error.as_db_error(),
            Self::Own(_) | Self::Unreplicated => None,
        }
    }

    fn has_code(&self, codes: &[&str]) -> bool {
        self.server()
            .is_some_and(|error| codes.contains(&error.code().code()))
    }

    /// True if a server gave the reason.
    pub(crate) fn is_said(&self) -> bool {
        self.server().is_some()
    }

    /// True if the server took the statement back because of another one: it may be repeated.
    pub(crate) fn is_conflict(&self) -> bool {
        self.has_code(&AGAIN)
    }

    /// True if another transaction has kept a lock for longer than the statement may wait.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        self.has_code(&["55P03"])
    }

    /// True if the server takes connections soon.
    pub(crate) fn is_starting(&self) -> bool {
        self.has_code(&["57P03"])
    }

    /// True if the server takes no writes: after a fail-over the primary is elsewhere.
    pub(crate) fn is_read_only(&self) -> bool {
        self.has_code(&["25006"])
    }

    /// The same fault, or `InvalidInput` if the server refuses a value: it does so every time.
    pub(crate) fn of_value(self) -> Self {
        let refused = self.server().filter(|said| {
            let code = said.code().code();
            code.starts_with("22") || code.starts_with("54")
        });
        let reason = refused.map(|said| format!("{} ({})", said.message(), said.code().code()));
        match reason {
            Some(reason) => Self::Own(Error::invalid("value", reason)),
            None => self,
        }
    }

    /// True if the connection can no longer be used.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Own(_) | Self::Unreplicated => false,
            Self::Sql(error) => error.as_db_error().is_none_or(ends_session) || self.is_read_only(),
        }
    }

    /// True if the failure of a write or a commit does not say whether it was applied. A cancelled
    /// one may have waited for its sync already.
    pub(crate) fn leaves_doubt(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Unreplicated => true,
            Self::Sql(error) => {
                error.as_db_error().is_none_or(ends_session)
                    || self.has_code(&["57014", "57P01", "57P02"])
            }
        }
    }

    /// The error for a call. `is_in_doubt`: a write was sent, and no answer says whether it was
    /// applied.
    pub(crate) fn error(&self, place: &str, is_in_doubt: bool) -> Error {
        let error = match self {
            Self::Own(error) => return error.clone(),
            Self::Unreplicated => {
                let text = "it has the write, and a standby may not have it";
                return lost(place, text, true);
            }
            Self::Sql(error) => error,
        };
        let Some(said) = error.as_db_error() else {
            return lost(place, &chain(error), is_in_doubt);
        };
        let detail = format!("{} ({})", said.message(), said.code().code());
        if is_in_doubt {
            return lost(place, &detail, true);
        }
        understood(place, said).unwrap_or_else(|| lost(place, &detail, false))
    }
}

/// True if the server says that it no longer waits for a standby. Its words depend on its language.
pub(crate) fn is_unreplicated(notice: &DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
}

/// The error of a call of which a part is applied.
pub(crate) fn after_a_part(place: &str, error: Error) -> Error {
    match error {
        Error::Indeterminate { .. } | Error::TypeInUse { .. } => error,
        Error::Unavailable { detail, .. } => lost(place, &detail, true),
        error => lost(place, &error.to_string(), true),
    }
}

/// The error for a call without an answer.
pub(crate) fn lost(place: &str, detail: &str, is_in_doubt: bool) -> Error {
    if is_in_doubt {
        return Error::indeterminate(place, detail);
    }
    Error::unavailable(place, detail)
}

/// True if the server ends the session with this error, so that the statement may have been
/// applied.
fn ends_session(error: &DbError) -> bool {
    let is_fatal = matches!(
        error.parsed_severity(),
        Some(Severity::Fatal | Severity::Panic)
    );
    is_fatal || error.code().code().starts_with("08")
}

/// The meaning of a refusal by the server that has changed nothing; `None` for others.
fn understood(place: &str, said: &DbError) -> Option<Error> {
    let code = said.code().code();
    let message = said.message();
    Some(match code {
        "53100" => Error::full(
            place,
            format!("{message}: free space on the disk of the database"),
        ),
        "53200" => Error::full(place, format!("{message}: the server is out of memory")),
        "25006" => Error::read_only(
            place,
            "it takes no writes: it is a standby, or default_transaction_read_only is on; name \
             the primary, or all hosts with target_session_attrs=read-write",
        ),
        "42501" => Error::misconfigured(
            place,
            message.to_owned(),
            "connect as the owner of the schema, or let the owner grant this role its rights",
        ),
        "3D000" => Error::misconfigured(place, message.to_owned(), "create it: createdb NAME"),
        "28P01" | "28000" => Error::misconfigured(
            place,
            message.to_owned(),
            "check user and password in the URL, and pg_hba.conf of the server",
        ),
        "42P01" | "42883" | "3F000" => Error::corrupt(
            place,
            format!(
                "{message}: its schema is gone or incomplete; restart the program, which creates \
                 what is missing, or restore a backup"
            ),
        ),
        "57014" => Error::unavailable(
            place,
            format!("{message}: raise statement_timeout of the role, or find what holds locks"),
        ),
        _ if code.starts_with("58") || code.starts_with("XX") => Error::corrupt(
            place,
            format!("{message} ({code}): see the log of the server"),
        ),
        _ => return None,
    })
}

/// An error with its causes, as one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
