//! Commands beside serving: check, tokens.

use std::time::Duration;

use delayq_plugin::{Clock, Error, Namespace, SystemClock, TypePattern};

use crate::access::NewToken;
use crate::args::{Command, TokenCommand, scopes};
use crate::server::{Server, ServerError};

const DAY: Duration = Duration::from_hours(24);
const MINUTE: Duration = Duration::from_mins(1);

/// Does it, and prints what there is to say.
pub(crate) async fn run(server: &Server, command: Command) -> Result<(), ServerError> {
    match command {
        Command::Check => check(server).await,
        Command::Token(command) => token(server, command).await,
    }
}

async fn check(server: &Server) -> Result<(), ServerError> {
    for namespace in server.app.spaces.names() {
        match server.app.spaces.of(&namespace).await {
            Ok(space) => {
                space.tasks.store().check().await?;
                println!("namespace {namespace}: {}, ok", space.tasks.store().name());
            }
            Err(problem) => {
                let text = format!("namespace {namespace}: {problem}");
                return Err(ServerError::Refused(text));
            }
        }
    }
    println!("{} tokens", server.app.tokens.all().len());
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
        } => {
            if namespace != "*" {
                Namespace::new(&namespace)?;
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
            };
            let (token, text) = tokens.create(new).await?;
            println!(
                "{text}\nits id is {}; the token is shown this once",
                token.id
            );
        }
        TokenCommand::List => {
            for token in tokens.all() {
                let scopes: Vec<_> = token.scopes.iter().map(ToString::to_string).collect();
                let expires = token.expires_at.map_or("never".to_owned(), |ms| {
                    delayq_plugin::Timestamp::from_millis(ms).to_string()
                });
                println!(
                    "{} {:?}: {} on {}, types {}, expires {expires}",
                    token.id,
                    token.name,
                    scopes.join(" "),
                    token.namespace,
                    if token.types.is_empty() {
                        "all".to_owned()
                    } else {
                        token.types.join(" ")
                    },
                );
            }
        }
        TokenCommand::Rotate {
            id,
            overlap_minutes,
        } => {
            let rotated = tokens.rotate(&id, MINUTE * overlap_minutes).await?;
            let (_, text) = rotated.ok_or_else(|| unknown(&id))?;
            println!("{text}\nthe earlier secret is valid for {overlap_minutes} minutes");
        }
        TokenCommand::Revoke { id } => {
            if !tokens.revoke(&id).await? {
                return Err(unknown(&id));
            }
            println!("revoked: every server refuses it within a second");
        }
    }
    Ok(())
}

fn unknown(id: &str) -> ServerError {
    ServerError::Refused(format!("there is no token {id}: `token list` shows them"))
}
