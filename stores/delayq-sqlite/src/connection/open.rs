//! Opening of the file: checks first, then settings, then the schema. A foreign file is not
//! changed.

use std::path::Path;

use delayq_core::error::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::connection::busy;
use crate::connection::file::{OpenFiles, make_private, make_way, refuse_unwritable_folder};
use crate::connection::reserve::Reserve;
use crate::connection::sync::SqliteSync;
use crate::error::{Fault, Outcome};
use crate::schema;

/// Number of threads that answer queries: one slow count must not keep a query for one id waiting.
pub(crate) const READERS: usize = 2;

/// Number of statements kept prepared: all that the operations use, with room to spare.
const STATEMENTS: usize = 64;

/// Settings of every connection.
///
/// - `cache_size`: 16 MiB of pages, enough for the indexes of some 100,000 tasks.
/// - `mmap_size` 0: with a mapping, a damaged or truncated file would kill the process (SIGBUS)
///   instead of causing an error.
/// - `cell_size_check`: damage is detected at its origin, not at its consequences.
/// - `fullfsync`: on Apple systems a plain fsync does not reach the disk.
/// - `trusted_schema` off: a prepared file cannot make the reader run functions.
const EVERY: &str = "PRAGMA cache_size = -16384; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; \
     PRAGMA cell_size_check = ON; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON; \
     PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = OFF;";

/// Settings of the writing connection.
///
/// - `wal_autocheckpoint`: the log is moved into the file every 16 MiB (4,096 pages): often enough
///   to keep it small, and rarely enough that hot pages are written once for many commits.
/// - `journal_size_limit`: a log that grew while a long reader held it up is cut to 64 MiB again.
const WRITER: &str = "PRAGMA wal_autocheckpoint = 4096; PRAGMA journal_size_limit = 67108864;";

/// The connections to one file.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) writer: Connection,
    pub(crate) readers: Vec<Connection>,
    pub(crate) files: OpenFiles,
    pub(crate) reserve: Reserve,
}

/// Opens the file at `path`, and creates it if there is none.
pub(crate) fn open(store: &str, path: &Path, sync: SqliteSync) -> Result<Opened> {
    let path = make_way(store, path)?;
    make_private(&path);
    let reserve = Reserve::new(store, &path);
    let writer = match open_writer_in_turn(store, &path, sync) {
        // Opening the log of a process that was killed needs space.
        Err(fault) if fault.is_full() && reserve.release() => {
            open_writer_in_turn(store, &path, sync)
        }
        result => result,
    };
    let writer = writer.map_err(|fault| refusal(store, &path, &fault))?;
    let files = OpenFiles::note(store, &path)?;
    let mut readers = Vec::with_capacity(READERS);
    for _ in 0..READERS {
        readers.push(open_reader(&path).map_err(|fault| refusal(store, &path, &fault))?);
    }
    Ok(Opened {
        writer,
        readers,
        files,
        reserve,
    })
}

/// Opens the writer, with more tries while the file is busy: when two processes create one file,
/// SQLite lets neither wait for the other, to avoid a deadlock.
fn open_writer_in_turn(store: &str, path: &Path, sync: SqliteSync) -> Outcome<Connection> {
    loop {
        match open_writer(store, path, sync) {
            Err(fault) if fault.is_busy() && busy::wait() => {}
            result => return result,
        }
    }
}

fn open_writer(store: &str, path: &Path, sync: SqliteSync) -> Outcome<Connection> {
    let mut writer = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    if writer.is_readonly("main")? {
        return Err(
            Error::read_only(store, "let the process write the file and its folder").into(),
        );
    }
    writer.execute_batch(EVERY)?;
    schema::check(&writer, store)?;
    use_wal(&writer, store)?;
    writer.execute_batch(WRITER)?;
    writer.execute_batch(match sync {
        SqliteSync::Full => "PRAGMA synchronous = FULL;",
        SqliteSync::Normal => "PRAGMA synchronous = NORMAL;",
    })?;
    schema::migrate(&mut writer, store, schema::STEPS)?;
    Ok(writer)
}

fn open_reader(path: &Path) -> Outcome<Connection> {
    let reader = connect(path, OpenFlags::empty())?;
    reader.execute_batch(EVERY)?;
    reader.execute_batch("PRAGMA query_only = ON;")?;
    Ok(reader)
}

fn connect(path: &Path, more: OpenFlags) -> Outcome<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let mut connection = Connection::open_with_flags(path, flags)?;
    busy::install(&mut connection)?;
    // Otherwise each binding of a limit or a time would prepare the statement again, for a better
    // plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Write-ahead log: readers and the writer do not wait for each other, and a commit is one sync.
fn use_wal(connection: &Connection, store: &str) -> Outcome<()> {
    let sql = "PRAGMA journal_mode = WAL";
    let mode: String = connection.query_row(sql, [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(Error::misconfigured(
        store,
        format!("its file system allows journal mode `{mode}` only, not `wal`"),
        "put the file on a local disk",
    )
    .into())
}

/// The reason why opening failed. An error that people have to fix first is not called transient.
fn refusal(store: &str, path: &Path, fault: &Fault) -> Error {
    let said = match fault {
        Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            error.to_string()
        }
        _ => return fault.error(store),
    };
    refuse_unwritable_folder(store, path).unwrap_or_else(|| {
        Error::misconfigured(store, said, "let the process read and write the file")
    })
}
