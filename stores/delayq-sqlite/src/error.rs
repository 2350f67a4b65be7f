//! Converts SQLite's errors into errors of this crate. The only place that reads SQLite's error
//! codes.

use delayq_core::error::Error;
use rusqlite::{ErrorCode, ffi};

/// The reason why an operation failed inside a transaction.
#[derive(Debug)]
pub(crate) enum Fault {
    /// `SQLite` refused.
    Sql(rusqlite::Error),
    /// This store refused.
    Own(Error),
}

/// The result of an operation inside a transaction.
pub(crate) type Outcome<T> = std::result::Result<T, Fault>;

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
    /// True if somebody else holds the requested lock.
    pub(crate) fn is_busy(&self) -> bool {
        let busy = [ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked];
        self.code().is_some_and(|code| busy.contains(&code))
    }

    /// True if the file itself is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        self.code() == Some(ErrorCode::DatabaseCorrupt)
    }

    /// True if the disk is full. `SQLite` has a separate code for the index of the log.
    pub(crate) fn is_full(&self) -> bool {
        let Self::Sql(error) = self else {
            return false;
        };
        let extended = error.sqlite_error().map(|error| error.extended_code);
        self.code() == Some(ErrorCode::DiskFull) || extended == Some(ffi::SQLITE_IOERR_SHMSIZE)
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sql(error) => error.sqlite_error_code(),
            Self::Own(_) => None,
        }
    }

    /// The error for a call that was certainly not applied.
    pub(crate) fn error(&self, store: &str) -> Error {
        let code = self.code();
        let error = match self {
            Self::Own(error) => return error.clone(),
            Self::Sql(error) => error,
        };
        let store = store.to_owned();
        let said = error.to_string();
        let Some(code) = code else {
            // A stored value has an unexpected type, or a required row is missing.
            return corrupt(store, &said);
        };
        match code {
            _ if self.is_full() => Error::full(
                store,
                format!("{said}: free space on the disk, or purge what is not needed"),
            ),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Error::read_only(
                store,
                format!(
                    "{said}: the process must be able to write the file, its -wal and -shm files \
                     and their folder"
                ),
            ),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::unavailable(
                store,
                format!("{said}: another process or a database tool keeps the file locked"),
            ),
            ErrorCode::NotADatabase => Error::corrupt(
                store,
                "it is not an SQLite database: nothing was changed, give another path or \
                         restore the file",
            ),
            ErrorCode::DatabaseCorrupt
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::Unknown => corrupt(store, &said),
            // "disk I/O error" alone does not tell which operation failed, such as growing the -shm
            // file.
            ErrorCode::SystemIoFailure => {
                let number = error.sqlite_error().map_or(0, |e| e.extended_code);
                let detail = format!("{said} (SQLite code {number}): look after the disk");
                Error::unavailable(store, detail)
            }
            _ => Error::unavailable(store, said),
        }
    }

    /// The error for a call whose transaction failed at the commit.
    ///
    /// If the sync fails, everything may already be in the log, and a restart would find it there.
    pub(crate) fn commit_error(&self, store: &str) -> Error {
        let is_io_failure = self.code() == Some(ErrorCode::SystemIoFailure);
        match self.error(store) {
            Error::Unavailable { store, detail } if is_io_failure => {
                Error::indeterminate(store, detail)
            }
            error => error,
        }
    }
}

fn corrupt(store: String, said: &str) -> Error {
    let advice = "keep a copy, then try `.recover` of the sqlite3 tool or restore a backup";
    Error::corrupt(store, format!("{said}: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: std::ffi::c_int) -> Fault {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    fn kind(error: &Error) -> &'static str {
        match error {
            Error::Full { .. } => "full",
            Error::ReadOnly { .. } => "read-only",
            Error::Unavailable { .. } => "unavailable",
            Error::Corrupt { .. } => "corrupt",
            Error::Indeterminate { .. } => "indeterminate",
            _ => "another",
        }
    }

    #[test]
    fn what_sqlite_says_is_told_with_what_to_do() {
        for (code, told, advice) in [
            (ffi::SQLITE_FULL, "full", "free space on the disk"),
            (ffi::SQLITE_READONLY, "read-only", "able to write the file"),
            (ffi::SQLITE_PERM, "read-only", "able to write the file"),
            (ffi::SQLITE_BUSY, "unavailable", "another process"),
            (ffi::SQLITE_LOCKED, "unavailable", "another process"),
            (ffi::SQLITE_NOTADB, "corrupt", "restore the file"),
            (ffi::SQLITE_CORRUPT, "corrupt", "restore a backup"),
            (ffi::SQLITE_CONSTRAINT, "corrupt", "restore a backup"),
            (ffi::SQLITE_MISMATCH, "corrupt", "restore a backup"),
            (ffi::SQLITE_IOERR_FSYNC, "unavailable", "(SQLite code 1034)"),
            (ffi::SQLITE_NOMEM, "unavailable", "memory"),
        ] {
            let error = fault(code).error("here");
            assert_eq!(kind(&error), told, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn a_commit_is_undecided_only_when_the_disk_fails() {
        for (code, told) in [
            (ffi::SQLITE_IOERR_FSYNC, "indeterminate"),
            (ffi::SQLITE_BUSY, "unavailable"),
            (ffi::SQLITE_FULL, "full"),
        ] {
            let error = fault(code).commit_error("here");
            assert_eq!(kind(&error), told, "{error}");
        }
    }
}
