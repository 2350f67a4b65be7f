//! What `SQLite` says, in the words of this crate. The only place that reads its error codes.

use rusqlite::ErrorCode;

use crate::error::Error;

/// Why an edge failed inside a transaction.
#[derive(Debug)]
pub(super) enum Fault {
    /// `SQLite` refused.
    Sql(rusqlite::Error),
    /// This store refused.
    Own(Error),
}

/// What an edge returns inside a transaction.
pub(super) type Outcome<T> = std::result::Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

impl Fault {
    /// Whether somebody else holds the lock that was asked for.
    pub(super) fn is_busy(&self) -> bool {
        let busy = [ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked];
        self.code().is_some_and(|code| busy.contains(&code))
    }

    /// Whether the file itself is damaged.
    pub(super) fn is_damage(&self) -> bool {
        self.code() == Some(ErrorCode::DatabaseCorrupt)
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sql(error) => error.sqlite_error_code(),
            Self::Own(_) => None,
        }
    }

    /// The error of a call that certainly was not applied.
    pub(super) fn into_error(self, store: &str) -> Error {
        let code = self.code();
        let error = match self {
            Self::Own(error) => return error,
            Self::Sql(error) => error,
        };
        let store = store.to_owned();
        let said = error.to_string();
        let Some(code) = code else {
            // A stored value of an unexpected type, or a row that has to be there and is not.
            return corrupt(store, &said);
        };
        match code {
            ErrorCode::DiskFull => Error::Full {
                store,
                detail: format!("{said}: free space on the disk, or purge what is not needed"),
            },
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Error::ReadOnly {
                store,
                detail: format!("{said}: the process must be able to write the file, its -wal and -shm files and their folder"),
            },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Unavailable {
                store,
                detail: format!("{said}: another process or a database tool keeps the file locked"),
            },
            ErrorCode::NotADatabase => Error::Corrupt {
                key: store,
                detail: "it is not an SQLite database: nothing was changed, give another path or restore the file".to_owned(),
            },
            ErrorCode::DatabaseCorrupt
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::Unknown => corrupt(store, &said),
            // "disk I/O error" alone hides which operation failed, such as growing the -shm file.
            ErrorCode::SystemIoFailure => {
                let number = error.sqlite_error().map_or(0, |e| e.extended_code);
                let detail = format!("{said} (SQLite code {number}): look after the disk");
                Error::Unavailable { store, detail }
            }
            _ => Error::Unavailable {
                store,
                detail: said,
            },
        }
    }

    /// The error of a call whose transaction failed at its very end.
    ///
    /// When the sync fails, everything may be in the log already, and a restart would find it there.
    pub(super) fn into_commit_error(self, store: &str) -> Error {
        let is_io_failure = self.code() == Some(ErrorCode::SystemIoFailure);
        match self.into_error(store) {
            Error::Unavailable { store, detail } if is_io_failure => {
                Error::Indeterminate { store, detail }
            }
            error => error,
        }
    }
}

fn corrupt(store: String, said: &str) -> Error {
    let advice = "keep a copy, then try `.recover` of the sqlite3 tool or restore a backup";
    Error::Corrupt {
        key: store,
        detail: format!("{said}: {advice}"),
    }
}
