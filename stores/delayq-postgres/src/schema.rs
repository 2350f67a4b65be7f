//! The schema: its tables and functions, and the steps from one version to the next.

use delayq_core::{Error, Result};

use crate::connection::{Connections, Session};
use crate::error::Outcome;
use crate::statements::Statements;

/// The version that this release writes, which is also the newest that it reads.
pub(crate) const VERSION: i32 = 2;

/// The oldest version whose releases may go on with a schema of this one.
const OLDEST: i32 = 1;

/// The settings of every function: the path of names, and the plans that it may not take, whatever
/// the statistics say. A table that has just been filled has none.
const PINNED: &str = "SET search_path FROM CURRENT SET enable_seqscan = off \
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off \
    SET jit = off SET standard_conforming_strings = on SET plan_cache_mode = force_generic_plan";

/// The columns that the record of an ended task does not keep.
const EMPTIED: &str = "flags = 0, due = NULL, submitted = NULL, delay = NULL, \
    expires_at = NULL, expires_after = NULL, fence = NULL, lock_expiries = NULL, \
    releases = NULL, requeues = NULL, holder = NULL, succeeded = NULL, errors = NULL, \
    last_error = NULL, note = NULL, headers = NULL, message = NULL";

/// The tables of each version, as the changes since the one before. They only add, so that earlier
/// releases go on beside this one.
const TABLES: [&str; 2] = [
    include_str!("schema/tables.sql"),
    include_str!("schema/tables_2.sql"),
];

/// The functions, of which each release has all: one with other parameters or answers gets a new
/// name, so that two releases work side by side.
const FUNCTIONS: [&str; 11] = [
    include_str!("schema/ends.sql"),
    include_str!("schema/submit.sql"),
    include_str!("schema/claim.sql"),
    include_str!("schema/settle.sql"),
    include_str!("schema/change.sql"),
    include_str!("schema/rows.sql"),
    include_str!("schema/upkeep.sql"),
    include_str!("schema/request.sql"),
    include_str!("schema/public.sql"),
    include_str!("schema/within.sql"),
    include_str!("schema/outbox.sql"),
];

const GRANTS: &str = include_str!("schema/grants.sql");

/// The groups of roles that [`GRANTS`] knows.
const GROUPS: [&str; 3] = ["sender", "worker", "reader"];

/// What to do about a schema that a role may not change.
const MIGRATE: &str = "start the application, whose role owns it; or as its owner run \
    `delayq migrate`, or what `delayq migrate --sql` prints";

const VERSIONS: &str = "SELECT version, min_version FROM {s}.meta";
const FOUND: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '{s}'), \
    EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = '{s}' AND c.relname = 'meta'), \
    EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = '{s}') OR EXISTS (SELECT 1 FROM pg_proc p JOIN pg_namespace n \
    ON n.oid = p.pronamespace WHERE n.nspname = '{s}'), \
    quote_ident('{s}') = '{s}'";

/// What a database has of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    has_schema: bool,
    /// True if the schema has tables or functions.
    is_used: bool,
    /// True for a name that needs no quotes.
    is_plain: bool,
    /// The version of its tables and functions; 0 if it has none.
    version: i32,
    /// The version that a release must know to use the schema.
    min_version: i32,
}

/// The statements that bring the schema from `version`, 0 for none, to the one of this release.
/// They are safe to repeat for the same version.
fn upgrade(schema: &str, version: i32) -> String {
    let mut text = format!("SET LOCAL search_path = {schema}, pg_temp;\n");
    let known = usize::try_from(version).unwrap_or(0);
    for tables in TABLES.iter().skip(known) {
        text.push_str(tables);
        text.push('\n');
    }
    for functions in FUNCTIONS {
        text.push_str(&rendered(functions));
        text.push('\n');
    }
    text.push_str(&GRANTS.replace("{s}", schema));
    let versions = if version == 0 {
        format!("INSERT INTO meta (version, min_version) VALUES ({VERSION}, {OLDEST});\n")
    } else {
        format!("UPDATE meta SET version = {VERSION}, min_version = {OLDEST};\n")
    };
    text + &versions
}

/// The statements that make the schema, for a person who runs them.
pub(crate) fn script(schema: &str, has_roles: bool) -> String {
    let roles = if has_roles {
        roles(schema)
    } else {
        String::new()
    };
    let upgrade = upgrade(schema, 0);
    format!("BEGIN;\n{roles}CREATE SCHEMA IF NOT EXISTS {schema};\n{upgrade}COMMIT;\n")
}

/// The statements that make the groups of roles.
fn roles(schema: &str) -> String {
    let groups = GROUPS.iter().map(|group| {
        let role = format!("{schema}_{group}");
        format!(
            "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}') THEN \
             CREATE ROLE {role} NOLOGIN; END IF; END $$;\n"
        )
    });
    groups.collect()
}

/// Functions with their settings; comments keep the words.
fn rendered(functions: &str) -> String {
    let lines = functions.lines().map(|line| {
        if line.trim_start().starts_with("--") {
            return line.to_owned();
        }
        line.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
            .replace("PINNED", PINNED)
            .replace("EMPTIED", EMPTIED)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Refuses a schema of a newer release. Makes one that is missing, and completes one of an earlier
/// release, if `may_migrate`.
///
/// # Errors
/// `Misconfigured` if the schema has to be changed, and may not be; `Incompatible` for a newer one.
pub(crate) async fn prepare(
    connections: &Connections,
    sql: &Statements,
    may_migrate: bool,
) -> Result<()> {
    let found = find(connections, sql).await?;
    if found.is_usable(connections.place())? {
        return Ok(());
    }
    if may_migrate {
        return install(connections, sql, false).await.map(drop);
    }
    let schema = sql.schema();
    let setting = match found.version {
        0 => format!("its schema {schema} is missing"),
        version => format!("its schema {schema} has version {version}, and not {VERSION}"),
    };
    Err(Error::misconfigured(connections.place(), setting, MIGRATE))
}

/// Brings the schema to the version of this release, and makes its functions and the rights of its
/// groups anew. Returns the version before; 0 if there was none.
pub(crate) async fn install(
    connections: &Connections,
    sql: &Statements,
    has_roles: bool,
) -> Result<i32> {
    let (own, place) = (sql.clone(), connections.place().to_owned());
    let installed = connections.call(move |session: &mut Session| {
        let (sql, place) = (own.clone(), place.clone());
        Box::pin(async move { install_in(session, &sql, &place, has_roles).await })
    });
    installed.await.map_err(|error| match error {
        Error::Misconfigured { store, setting, .. } => Error::Misconfigured {
            store,
            setting: format!(
                "{setting}: the schema {} is missing or not complete",
                sql.schema()
            ),
            fix: MIGRATE.to_owned(),
        },
        error => error,
    })
}

async fn find(connections: &Connections, sql: &Statements) -> Result<Found> {
    let sql = sql.clone();
    let call = connections.call(move |session: &mut Session| {
        let sql = sql.clone();
        Box::pin(async move { find_in(session, &sql).await })
    });
    call.await
}

async fn find_in(session: &mut Session, sql: &Statements) -> Outcome<Found> {
    let rows = session.ask(&sql.sql(FOUND), &[]).await?;
    let mut found = Found {
        has_schema: false,
        is_used: false,
        is_plain: true,
        version: 0,
        min_version: 0,
    };
    let Some(row) = rows.first() else {
        return Ok(found);
    };
    found.has_schema = row.try_get(0)?;
    found.is_used = row.try_get(2)?;
    found.is_plain = row.try_get(3)?;
    if row.try_get(1)? {
        let rows = session.ask(&sql.sql(VERSIONS), &[]).await?;
        if let Some(row) = rows.first() {
            found.version = row.try_get(0)?;
            found.min_version = row.try_get(1)?;
        }
    }
    Ok(found)
}

async fn install_in(
    session: &mut Session,
    sql: &Statements,
    place: &str,
    has_roles: bool,
) -> Outcome<i32> {
    session.begin().await?;
    // Nobody waits long behind a change of a table that itself waits.
    session.run("SET LOCAL lock_timeout = '2s'").await?;
    // Two instances that start at the same time take turns.
    session
        .run("SELECT pg_advisory_xact_lock(hashtextextended('delayq schema', 0))")
        .await?;
    let found = find_in(session, sql).await?;
    found.check_upgrade(place, sql.schema())?;
    let schema = sql.schema();
    if has_roles {
        session.run(&roles(schema)).await?;
    }
    if !found.has_schema {
        session.run(&format!("CREATE SCHEMA {schema}")).await?;
    }
    session.run(&upgrade(schema, found.version)).await?;
    session.commit().await?;
    Ok(found.version)
}

impl Found {
    /// Refuses to change a schema that is not delayq's, or that a newer release has made.
    fn check_upgrade(self, place: &str, schema: &str) -> Result<()> {
        if !self.is_plain {
            let reason = format!("schema {schema}: it is a word of SQL, choose another name");
            return Err(Error::invalid("PostgreSQL URL", reason));
        }
        if self.version > VERSION {
            return Err(newer(place, self.version));
        }
        if self.version == 0 && (self.is_used || schema == "public") {
            let setting = format!("the schema {schema} is for tables or functions of others");
            let fix = "name a schema for delayq alone: ?schema=NAME in the URL";
            return Err(Error::misconfigured(place, setting, fix));
        }
        self.is_usable(place).map(drop)
    }

    /// True if the schema has all that this release needs.
    ///
    /// # Errors
    /// `Incompatible` if this release is too old for it.
    fn is_usable(self, place: &str) -> Result<bool> {
        if self.min_version <= VERSION {
            return Ok(self.version >= VERSION);
        }
        Err(newer(place, self.min_version))
    }
}

fn newer(place: &str, version: i32) -> Error {
    Error::Incompatible {
        what: format!("the schema of {place}"),
        found: version.unsigned_abs(),
        supported: VERSION.unsigned_abs(),
    }
}
