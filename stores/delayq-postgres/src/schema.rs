//! The schema: its tables and functions, and the steps from one version to the next.

use delayq_core::{Error, Result};

use crate::connection::{Connections, Session};
use crate::error::Outcome;
use crate::statements::Statements;

/// The version that this release writes, which is also the newest that it reads.
const VERSION: i32 = 1;

/// The settings of every function: the path of names, and the plans that it may not take, whatever
/// the statistics say. A table that has just been filled has none.
const PINNED: &str = "SET search_path FROM CURRENT SET enable_seqscan = off \
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off \
    SET jit = off SET plan_cache_mode = force_generic_plan";

/// The columns that the record of an ended task does not keep.
const EMPTIED: &str = "flags = 0, due = NULL, submitted = NULL, delay = NULL, \
    expires_at = NULL, expires_after = NULL, fence = NULL, lock_expiries = NULL, \
    releases = NULL, requeues = NULL, holder = NULL, succeeded = NULL, errors = NULL, \
    last_error = NULL, note = NULL, headers = NULL, message = NULL";

const TABLES: &str = include_str!("schema/tables.sql");

/// The functions, of which each release has all: a changed one gets a new name, so that two
/// releases work side by side.
const FUNCTIONS: [&str; 6] = [
    include_str!("schema/submit.sql"),
    include_str!("schema/claim.sql"),
    include_str!("schema/settle.sql"),
    include_str!("schema/change.sql"),
    include_str!("schema/rows.sql"),
    include_str!("schema/upkeep.sql"),
];

const VERSIONS: &str = "SELECT min_version FROM {s}.meta";
const HAS_META: &str = "SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = '{s}' AND c.relname = 'meta')";

/// The statements that make the schema, for a person who runs them.
pub(crate) fn script(schema: &str) -> String {
    let mut text = format!(
        "CREATE SCHEMA IF NOT EXISTS {schema};\nSET LOCAL search_path = {schema}, pg_temp;\n{TABLES}\n"
    );
    for functions in FUNCTIONS {
        text.push_str(&rendered(functions));
        text.push('\n');
    }
    let versions =
        format!("INSERT INTO meta (version, min_version) VALUES ({VERSION}, {VERSION});\n");
    text + &versions
}

/// Functions with their settings; comments keep the words.
fn rendered(functions: &str) -> String {
    let lines = functions.lines().map(|line| {
        if line.trim_start().starts_with("--") {
            return line.to_owned();
        }
        line.replace("PINNED", PINNED).replace("EMPTIED", EMPTIED)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Makes the schema if it is missing, and refuses one of a newer release.
pub(crate) async fn prepare(connections: &Connections, sql: &Statements) -> Result<()> {
    let (sql, place) = (sql.clone(), connections.place().to_owned());
    connections
        .call(move |session: &mut Session| {
            let (sql, place) = (sql.clone(), place.clone());
            Box::pin(async move { prepare_in(session, &sql, &place).await })
        })
        .await
}

/// The version that a release must know to use the schema; `None` if there is no schema.
async fn version(session: &mut Session, sql: &Statements) -> Outcome<Option<i32>> {
    let rows = session.ask(&sql.sql(HAS_META), &[]).await?;
    let has_meta: Option<bool> = rows.first().map(|row| row.try_get(0)).transpose()?;
    if has_meta != Some(true) {
        return Ok(None);
    }
    let rows = session.ask(&sql.sql(VERSIONS), &[]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

async fn prepare_in(session: &mut Session, sql: &Statements, place: &str) -> Outcome<()> {
    if let Some(found) = version(session, sql).await? {
        return refuse_newer(place, found);
    }
    session.begin().await?;
    // Two instances that start at the same time take turns.
    session
        .run("SELECT pg_advisory_xact_lock(hashtextextended('delayq schema', 0))")
        .await?;
    if let Some(found) = version(session, sql).await? {
        session.commit().await?;
        return refuse_newer(place, found);
    }
    session.run(&script(sql.schema())).await?;
    session.commit().await
}

fn refuse_newer(place: &str, min_version: i32) -> Outcome<()> {
    if min_version <= VERSION {
        return Ok(());
    }
    let newer = Error::Incompatible {
        what: format!("the schema of {place}"),
        found: min_version.unsigned_abs(),
        supported: VERSION.unsigned_abs(),
    };
    Err(newer.into())
}
