//! `delayq-server apply`: brings about what files declare.

use std::io::Write;
use std::process::ExitCode;

use delayq_service::apply::{Plan, PlanOptions, Refusal, Report, SecretFolder, State, carry_out};
use delayq_service::config::Config;

use super::missing;
use crate::args::{ApplyArgs, Format};
use crate::say::say;
use crate::server::Server;

/// Applies the files, and prints the report.
pub(super) async fn run(config: Config, args: &ApplyArgs) -> ExitCode {
    let applied = applied(config, args).await;
    let (failed, differs) = if args.check { (2, 1) } else { (1, 0) };
    match applied {
        Ok(has_deeds) => ExitCode::from(if has_deeds { differs } else { 0 }),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(failed)
        }
    }
}

/// Returns true if there was something to do.
async fn applied(mut config: Config, args: &ApplyArgs) -> Result<bool, String> {
    // The files first: a mistake in them needs no store.
    let state = State::read(&args.files).map_err(|error| error.to_string())?;
    let secrets = args.tokens_to.as_deref().map(SecretFolder::at);
    let options = PlanOptions {
        is_pruning: args.prune,
        is_only_looking: args.dry_run || args.check,
        secrets: secrets.transpose().map_err(|error| error.to_string())?,
        actor: format!("delayq-server apply {}", state.name),
        origin: "the command line".to_owned(),
    };
    if let Some(file) = missing::missing_file(&config.store) {
        return Err(missing::refuse(&file).to_string());
    }
    config.is_only_looking = options.is_only_looking;
    let server = Server::open(config).await;
    let server = server.map_err(|error| error.to_string())?;
    let done = on(&server, &state, options, args.output).await;
    server.close().await;
    done
}

async fn on(
    server: &Server,
    state: &State,
    options: PlanOptions,
    output: Format,
) -> Result<bool, String> {
    let is_dry_run = options.is_only_looking;
    let plan = Plan::new(&server.app, state, options).await;
    let mut plan = plan.map_err(|error| format!("nothing is changed: {error}"))?;
    let error: Option<Refusal> = if is_dry_run {
        None
    } else {
        carry_out(&mut plan).await.err()
    };
    let report = Report::new(&plan, is_dry_run, error.as_ref());
    say(match output {
        Format::Text => report.text(),
        Format::Json => serde_json::to_string(&report).unwrap_or_default(),
    });
    match error {
        Some(error) => Err(error.to_string()),
        None => Ok(plan.has_deeds()),
    }
}
