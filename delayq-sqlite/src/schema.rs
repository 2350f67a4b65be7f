//! Form of the file: owner, version, and the steps from one version to the next.

use delayq_core::error::Error;
use rusqlite::{Connection, TransactionBehavior};

use crate::error::Outcome;

/// `application_id` of delayq's files: "dlyq". Tools such as `file` show it.
const APPLICATION: i64 = 0x646c_7971;

/// The SQL that leads from each version to the next, beginning with an empty file. Steps are only
/// ever appended: files of every version exist.
pub(crate) const STEPS: &[&str] = &[
    include_str!("schema/schema_1.sql"),
    include_str!("schema/schema_2.sql"),
];

/// Columns of `types` that came later and that every release of this version can do without. They
/// are no step, which would keep older processes out: the limits of the fleet that all claimers
/// keep to, the span in microseconds.
const COLUMNS: [&str; 4] = ["fleet_concurrency", "rate_starts", "rate_per", "rate_burst"];

/// The version that this release writes, and the newest that it reads.
pub(crate) fn version(steps: &[&str]) -> u32 {
    u32::try_from(steps.len()).unwrap_or(u32::MAX)
}

/// The marks in the header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label {
    application: i64,
    version: u32,
    is_empty: bool,
}

/// Refuses a file that is not delayq's or is of a newer release. It reads only.
pub(crate) fn check(connection: &Connection, store: &str) -> Outcome<()> {
    // In one snapshot: another process may be making the file right now.
    let snapshot = connection.unchecked_transaction()?;
    let label = read_label(&snapshot)?;
    refuse_foreign(label, store, STEPS)
}

/// Brings the file to the newest version, in one transaction.
pub(crate) fn migrate(connection: &mut Connection, store: &str, steps: &[&str]) -> Outcome<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let label = read_label(&tx)?;
    refuse_foreign(label, store, steps)?;
    let missing = usize::try_from(label.version).unwrap_or(usize::MAX);
    if missing < steps.len() {
        for step in steps.iter().skip(missing) {
            tx.execute_batch(step)?;
        }
        tx.pragma_update(None, "application_id", APPLICATION)?;
        tx.pragma_update(None, "user_version", version(steps))?;
        tracing::info!(
            store,
            from = label.version,
            to = version(steps),
            "schema written"
        );
    }
    for column in COLUMNS {
        add_column(&tx, column)?;
    }
    tx.commit()?;
    Ok(())
}

fn add_column(connection: &Connection, column: &str) -> Outcome<()> {
    let sql = "SELECT count(*) FROM pragma_table_info('types') WHERE name = ?1";
    let found: u32 = connection.query_row(sql, [column], |row| row.get(0))?;
    if found == 0 {
        connection.execute_batch(&format!("ALTER TABLE types ADD COLUMN {column} INTEGER"))?;
    }
    Ok(())
}

/// Refuses to go on in a file that a newer release has changed meanwhile.
pub(crate) fn check_version(connection: &Connection, store: &str) -> Outcome<()> {
    let mut select = connection.prepare_cached("PRAGMA user_version")?;
    let found: u32 = select.query_row([], |row| row.get(0))?;
    if found == version(STEPS) {
        return Ok(());
    }
    Err(incompatible(store, found, STEPS).into())
}

/// Checks that a file in use still is what was opened.
pub(crate) fn check_settings(connection: &Connection, store: &str) -> Outcome<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(Error::misconfigured(
        store,
        format!("somebody has set its journal mode to `{mode}`"),
        "run PRAGMA journal_mode = WAL on it",
    )
    .into())
}

fn read_label(connection: &Connection) -> Outcome<Label> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let version = number("PRAGMA user_version")?;
    Ok(Label {
        application: number("PRAGMA application_id")?,
        version: u32::try_from(version).unwrap_or(u32::MAX),
        is_empty: number("SELECT count(*) FROM sqlite_schema")? == 0,
    })
}

fn refuse_foreign(label: Label, store: &str, steps: &[&str]) -> Outcome<()> {
    let is_new = label.is_empty && label.version == 0 && label.application == 0;
    if is_new {
        return Ok(());
    }
    if label.application != APPLICATION {
        return Err(Error::misconfigured(
            store,
            format!(
                "the file belongs to another application (application_id {:#x})",
                label.application
            ),
            "give delayq a file of its own",
        )
        .into());
    }
    if label.is_empty || label.version == 0 {
        return Err(Error::corrupt(
            store.to_owned(),
            "it is marked as delayq's and has no tables: restore a backup",
        )
        .into());
    }
    if label.version > version(steps) {
        return Err(incompatible(store, label.version, steps).into());
    }
    Ok(())
}

fn incompatible(store: &str, found: u32, steps: &[&str]) -> Error {
    Error::Incompatible {
        what: store.to_owned(),
        found,
        supported: version(steps),
    }
}
