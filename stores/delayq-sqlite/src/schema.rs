//! Format of the file: owner, version, and the steps from one version to the next.

use delayq_core::error::Error;
use rusqlite::{Connection, TransactionBehavior};

use crate::error::Outcome;

/// `application_id` of delayq's files: "dlyq". Tools such as `file` show it.
const APPLICATION: i64 = 0x646c_7971;

/// The SQL that leads from each version to the next, beginning with an empty file. Steps are only
/// appended, as files of every version exist.
pub(crate) const STEPS: &[&str] = &[
    include_str!("schema/schema_1.sql"),
    include_str!("schema/schema_2.sql"),
];

/// Columns that were added later and that every release of this version can do without: table,
/// name, type. They are not a step, as a step would lock out older processes. In `types`: the fleet
/// limits for all claimers, with the span in microseconds; the numbers of ended tasks, which an
/// older process does not count; the end of the latest task forgotten before its retention was
/// over; and the part of a message that the record of an end keeps, in bytes, where NULL records no
/// end, as an older process does. In `tasks`: `holder`, the last fence issued to a holder, a space,
/// and the holder's short identity; `errors`, an `ErrorLog`; `settled_by`, the way a lock was
/// settled, as a number; and `note`, that of the last settlement with one, which an older process
/// leaves as it is.
const COLUMNS: [[&str; 3]; 11] = [
    ["types", "fleet_concurrency", "INTEGER"],
    ["types", "rate_starts", "INTEGER"],
    ["types", "rate_per", "INTEGER"],
    ["types", "rate_burst", "INTEGER"],
    ["types", "done", "INTEGER"],
    ["types", "died", "INTEGER"],
    ["types", "cancelled", "INTEGER"],
    ["types", "expired", "INTEGER"],
    ["types", "failed", "INTEGER"],
    ["types", "forgotten", "INTEGER"],
    ["types", "history", "INTEGER"],
];
/// The columns of `tasks`, in the order in which they were added.
const TASK_COLUMNS: [&str; 3] = [
    ", holder TEXT, errors TEXT",
    ", settled_by INTEGER",
    ", note TEXT",
];

/// Tables that were added later and that every release of this version can do without; not a step
/// either. Earlier releases neither read nor write them.
const TABLES: &str = include_str!("schema/tables.sql");

/// The version that this release writes, which is also the newest that it reads.
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

/// Refuses a file that does not belong to delayq or is from a newer release. Only reads.
pub(crate) fn check(connection: &Connection, store: &str) -> Outcome<()> {
    // In one snapshot, as another process may be creating the file right now.
    let snapshot = connection.unchecked_transaction()?;
    let label = read_label(&snapshot)?;
    refuse_foreign(label, store, STEPS)
}

/// Migrates the file to the newest version, in one transaction.
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
    widen_tasks(&tx)?;
    tx.execute_batch(TABLES)?;
    tx.commit()?;
    Ok(())
}

fn add_column(connection: &Connection, [table, column, kind]: [&str; 3]) -> Outcome<()> {
    let sql = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
    let found: u32 = connection.query_row(sql, [table, column], |row| row.get(0))?;
    if found == 0 {
        connection.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {kind}"))?;
    }
    Ok(())
}

/// Adds [`TASK_COLUMNS`] to the definition of `tasks`, which is enough for columns without values.
/// `ALTER TABLE` would first read every row of a STRICT table: this takes longer than other
/// processes wait, and one damaged row would keep the whole file from opening. Source: the
/// procedure for changes that do not affect the content,
/// <https://www.sqlite.org/lang_altertable.html>.
fn widen_tasks(connection: &Connection) -> Outcome<()> {
    let definition = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'tasks'";
    let sql: String = connection.query_row(definition, [], |row| row.get(0))?;
    let (columns, options) = sql.rsplit_once(')').unwrap_or((&sql, ""));
    let missing = TASK_COLUMNS
        .into_iter()
        .filter(|more| !columns.contains(more));
    let missing: String = missing.collect();
    if missing.is_empty() {
        return Ok(());
    }
    let wide = format!("{columns}{missing}){options}");
    let schema: i64 = connection.query_row("PRAGMA schema_version", [], |row| row.get(0))?;
    connection.execute_batch("PRAGMA writable_schema = ON")?;
    let change = "UPDATE sqlite_schema SET sql = ?1 WHERE type = 'table' AND name = 'tasks'";
    let changed = connection.execute(change, [wide]);
    // Makes other connections read the definition again; RESET does the same for this one.
    connection.execute_batch(&format!(
        "PRAGMA schema_version = {}; PRAGMA writable_schema = RESET",
        schema.wrapping_add(1)
    ))?;
    changed?;
    connection.prepare("SELECT holder, errors, settled_by, note FROM tasks LIMIT 1")?;
    Ok(())
}

/// Refuses to continue in a file that a newer release has changed meanwhile.
pub(crate) fn check_version(connection: &Connection, store: &str) -> Outcome<()> {
    let mut select = connection.prepare_cached("PRAGMA user_version")?;
    let found: u32 = select.query_row([], |row| row.get(0))?;
    if found == version(STEPS) {
        return Ok(());
    }
    Err(incompatible(store, found, STEPS).into())
}

/// Checks that a file in use is still as it was opened.
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
