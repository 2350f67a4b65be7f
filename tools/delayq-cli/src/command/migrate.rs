//! `migrate`: the schema of a PostgreSQL database.

use delayq_plugin::store::{PostgresConfig, PostgresMigration};
use serde_json::json;

use crate::answer::CommandResult;
use crate::connection::{self, StoreArgs};
use crate::failure::Failure;
use crate::store_url::{is_postgres, without_class};

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// Print the statements that make a new schema, instead of running them.
    #[arg(long)]
    pub(crate) sql: bool,
    /// Also make the groups SCHEMA_sender, SCHEMA_worker and SCHEMA_reader, to grant to roles.
    #[arg(long)]
    roles: bool,
}

/// The migration of the database that the arguments name. Without `is_run`, any will do.
fn migration(args: &MigrateArgs, store: &StoreArgs) -> Result<PostgresMigration, Failure> {
    let url = match connection::url(store) {
        // The statements depend on the name of the schema alone.
        Err(Failure::Usage(_)) if args.sql && store.url.is_none() => "postgres://localhost".into(),
        url => url?,
    };
    if !is_postgres(&url) {
        let text = "only a PostgreSQL database has a schema: name one with --url postgres://..";
        return Err(Failure::usage(text));
    }
    let migration = PostgresMigration::new(PostgresConfig::parse(&without_class(&url))?);
    Ok(if args.roles {
        migration.with_roles()
    } else {
        migration
    })
}

/// Prints the statements.
pub(crate) fn print(args: &MigrateArgs, store: &StoreArgs) -> Result<CommandResult, Failure> {
    let script = migration(args, store)?.script();
    if store.format().is_document() {
        return CommandResult::new(script.as_str(), json!({"sql": script}));
    }
    Ok(CommandResult::raw(script.into_bytes()))
}

/// Runs the migration.
pub(crate) async fn run(args: &MigrateArgs, store: &StoreArgs) -> Result<CommandResult, Failure> {
    let done = migration(args, store)?.run().await?;
    let (from, to) = (done.from, done.to);
    let text = match from {
        0 => format!("made the schema, version {to}"),
        _ if from == to => {
            format!("the schema had version {to} already: its functions and rights are made anew")
        }
        _ => format!("the schema went from version {from} to {to}"),
    };
    CommandResult::new(text, json!({"from": from, "to": to}))
}
