//! Commands other than serving: apply, check, health, moves, tokens, pages.

mod apply;
mod check;
mod health;
mod missing;
mod page;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use delayq_ops::Operator;
use delayq_plugin::{Clock, Error, Namespace, SystemClock, Timestamp, TypePattern};
use delayq_service::access::{NewToken, Token};
use delayq_service::config::{Config, is_own_namespace};
use delayq_service::place::Mover;

use crate::args::{Command, TokenCommand, scopes};
use crate::say::say;
use crate::server::{Server, ServerError};

pub(crate) use page::print;

const DAY: Duration = Duration::from_hours(24);
const MINUTE: Duration = Duration::from_mins(1);

/// Runs a command and prints its result. Returns the exit code of the program.
pub(crate) async fn run(config: Config, command: Command) -> Result<ExitCode, ServerError> {
    match command {
        Command::Check => check::run(config).await?,
        Command::Apply(args) => return Ok(apply::run(config, &args).await),
        Command::Health { live, timeout } => {
            let question = if live {
                health::Question::Live
            } else {
                health::Question::Ready
            };
            health::run(&config, question, Duration::from_secs(timeout)).await?;
        }
        command => on_store(config, command).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn on_store(config: Config, command: Command) -> Result<(), ServerError> {
    if let Some(file) = missing::missing_file(&config.store) {
        return Err(missing::refuse(&file));
    }
    let server = Server::open(config).await?;
    let done = on(&server, command).await;
    server.close().await;
    done
}

async fn on(server: &Server, command: Command) -> Result<(), ServerError> {
    match command {
        // `run` has done them.
        Command::Check | Command::Apply(_) | Command::Health { .. } => Ok(()),
        // The program has printed them, or has served it.
        Command::Completions { .. } | Command::Man => Ok(()),
        #[cfg(feature = "beanstalkd")]
        Command::Beanstalkd(_) => Ok(()),
        Command::Token(command) => token(server, command).await,
        Command::Move {
            namespace,
            to,
            cancel,
        } => moved(server, &namespace, to, cancel).await,
    }
}

async fn moved(
    server: &Server,
    namespace: &Namespace,
    to: Option<String>,
    cancel: bool,
) -> Result<(), ServerError> {
    let space = server.app.spaces.of(namespace).await;
    let space = space.map_err(|problem| ServerError::Refused(problem.to_string()))?;
    let mover = Mover::new(Arc::clone(&space.place));
    let operator = Operator::new(&space.tasks, "delayq-server move", "the command line");
    if cancel {
        mover.cancel().await?;
        operator.note("cancel-move", "", "").await;
    }
    let Some(to) = to else {
        say(format!("namespace {namespace}: {}", mover.status().await?));
        return Ok(());
    };
    let destination = server.app.config.destination(&to);
    let destination = destination.map_err(ServerError::Refused)?;
    mover
        .head_for(destination, operator.actor(), "the command line")
        .await?;
    loop {
        mover.advance().await?;
        let status = mover.status().await?;
        if status.has_moved() {
            // Closes the old store for new tasks, even if no server has heard of the move yet.
            mover.advance().await?;
            say(format!("namespace {namespace}: {status}"));
            if status.is_over() {
                return Ok(());
            }
            break;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    say(format!(
        "the servers go on with it; `delayq-server move {namespace}` shows how far it is"
    ));
    Ok(())
}

async fn token(server: &Server, command: TokenCommand) -> Result<(), ServerError> {
    let tokens = &server.app.tokens;
    match command {
        TokenCommand::Create {
            name,
            scope,
            namespace,
            types,
            expires_in_days,
            rate,
            max_message_bytes,
            max_pending,
        } => {
            if namespace != "*" {
                Namespace::new(&namespace)?;
            }
            if is_own_namespace(&namespace) {
                let text =
                    format!("no token is for {namespace}: the server keeps its tokens in it");
                return Err(ServerError::Refused(text));
            }
            let patterns = types.iter().map(|text| TypePattern::new(text));
            patterns.collect::<Result<Vec<_>, Error>>()?;
            let expires = expires_in_days.map(|days| SystemClock.now().plus(DAY * days));
            let new = NewToken {
                name,
                scopes: scopes(&scope),
                namespace,
                types,
                expires_at: expires,
                rate,
                max_message_bytes,
                max_pending,
            };
            let (token, text) = tokens.create(new).await?;
            say(format!(
                "{text}\nits id is {}; the token is shown this once",
                token.id
            ));
        }
        TokenCommand::List => {
            for token in tokens.all() {
                say(line(&token));
            }
        }
        TokenCommand::Rotate {
            id,
            overlap_minutes,
        } => {
            let rotated = tokens.rotate(&id, MINUTE * overlap_minutes).await?;
            let (_, text) = rotated.ok_or_else(|| unknown(&id))?;
            say(format!(
                "{text}\nthe earlier secret is valid for {overlap_minutes} minutes"
            ));
        }
        TokenCommand::Revoke { id } => {
            if !tokens.revoke(&id).await? {
                return Err(unknown(&id));
            }
            say("revoked: every server refuses it within a second");
        }
    }
    Ok(())
}

/// A token without its secret.
fn line(token: &Token) -> String {
    let scopes: Vec<_> = token.scopes.iter().map(ToString::to_string).collect();
    let expires = token.expires_at.map_or("never".to_owned(), |ms| {
        Timestamp::from_millis(ms).to_string()
    });
    let types = match token.types.join(" ") {
        none if none.is_empty() => "all".to_owned(),
        types => types,
    };
    let limits = [
        token.rate.map(|most| format!(", {most} requests/s")),
        token
            .max_message_bytes
            .map(|most| format!(", messages of {most} bytes")),
        token
            .max_pending
            .map(|most| format!(", {most} pending tasks")),
    ];
    let limits: String = limits.into_iter().flatten().collect();
    format!(
        "{} {:?}: {} on {}, types {types}, expires {expires}{limits}",
        token.id,
        token.name,
        scopes.join(" "),
        token.namespace,
    )
}

fn unknown(id: &str) -> ServerError {
    ServerError::Refused(format!("there is no token {id}: `token list` shows them"))
}
