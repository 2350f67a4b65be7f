//! The tables of the history: they are made, and their months come and go.

use std::ops::RangeInclusive;

use delayq_core::error::{Error, Result};
use delayq_core::{Clock, SystemClock};

use super::cell::int;
use super::fault::{Fault, Outcome};
use super::partitions::{self, Partition};
use super::session::Session;
use super::sql;
use crate::month::Month;

/// The version of the tables.
const VERSION: i64 = 2;

/// The version of the tables in the database; `None` if they are not complete.
pub(super) async fn version(session: &mut Session) -> Outcome<Option<i64>> {
    let rows = session.rows(sql::HAS_TABLES, Vec::new()).await?;
    let has_own = rows.first().and_then(|row| row.first()).and_then(int) == Some(1);
    if !has_own {
        return Ok(None);
    }
    session.number(sql::VERSION, Vec::new()).await
}

/// True if the tables have the form of this release. Refuses those of a later one.
pub(super) fn is_current(version: Option<i64>, place: &str) -> Result<bool> {
    let Some(version) = version.filter(|version| *version > VERSION) else {
        return Ok(version == Some(VERSION));
    };
    Err(Error::Incompatible {
        what: format!("the history in {place}"),
        found: u32::try_from(version).unwrap_or(u32::MAX),
        supported: u32::try_from(VERSION).unwrap_or(u32::MAX),
    })
}

/// Makes what is missing of the tables.
pub(super) async fn make(session: &mut Session, place: &str) -> Outcome<()> {
    lock(session, place).await?;
    let rows = session.rows(sql::HAS_TABLES, Vec::new()).await?;
    let count = |column: usize| rows.first().and_then(|row| row.get(column)).and_then(int);
    if count(0) == Some(0) && count(1) != Some(0) {
        let setting = "the database has tables of another application that are named namespaces, \
             types, lives or tasks";
        let fix = "give the history a database of its own";
        return Err(Error::misconfigured(place, setting, fix).into());
    }
    let present = Month::of(SystemClock.now()).start().to_string();
    for table in sql::TABLES {
        session.run(&table.replace("{x}", &present)).await?;
    }
    for (table, column) in sql::COLUMNS_OF_2 {
        let name = column.split(' ').next().unwrap_or_default();
        let has = format!("{} '{table}' AND column_name = '{name}'", sql::HAS_COLUMN);
        if session.number(&has, Vec::new()).await? == Some(0) {
            session
                .run(&format!("ALTER TABLE {table} ADD COLUMN {column}"))
                .await?;
        }
    }
    for change in sql::KEPT_FOR_EVER {
        session.run(change).await?;
    }
    session.run(sql::IS_COMPLETE).await?;
    session.run(sql::UNLOCK).await
}

/// Makes the months of a range that are missing.
pub(super) async fn make_months(
    session: &mut Session,
    place: &str,
    range: &RangeInclusive<Month>,
) -> Outcome<()> {
    if partitions::make(&present(session).await?, range).is_empty() {
        return Ok(());
    }
    lock(session, place).await?;
    // Another process may have made them meanwhile.
    for statement in partitions::make(&present(session).await?, range) {
        session.run(&statement).await?;
    }
    session.run(sql::UNLOCK).await
}

/// Drops the months whose lives all ended before a time. Returns the partitions that there were.
pub(super) async fn drop_months(session: &mut Session, before: i64) -> Outcome<Vec<Partition>> {
    let partitions = present(session).await?;
    let over = partitions::over(&partitions, before).join(", ");
    if over.is_empty() {
        return Ok(partitions);
    }
    let drop = format!("ALTER TABLE lives DROP PARTITION {over}");
    match session.run(&drop).await {
        Ok(()) => tracing::info!(months = over, "months of the history were dropped"),
        // Another process has dropped them.
        Err(fault) if fault.lacks_named_partition() => {}
        Err(fault) => return Err(fault),
    }
    Ok(partitions)
}

async fn present(session: &mut Session) -> Outcome<Vec<Partition>> {
    let rows = session.rows(sql::PARTITIONS, Vec::new()).await?;
    Ok(rows.iter().filter_map(|row| Partition::read(row)).collect())
}

async fn lock(session: &mut Session, place: &str) -> Outcome<()> {
    match session.number(sql::LOCK, Vec::new()).await? {
        Some(1) => Ok(()),
        _ => Err(Fault::Own(Error::unavailable(
            place,
            "another process changes the tables of the history",
        ))),
    }
}
