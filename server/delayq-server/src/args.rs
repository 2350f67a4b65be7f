//! The command line of the server.

mod apply;
#[cfg(feature = "beanstalkd")]
mod beanstalkd;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use delayq_plugin::Namespace;
use delayq_service::access::Scope;
use delayq_service::config::ADDRESS_FORM;
use serde_json::{Map, Value};

pub(crate) use self::apply::{ApplyArgs, Format};
#[cfg(feature = "beanstalkd")]
pub(crate) use self::beanstalkd::BeanstalkdArgs;

/// Hold delayed tasks for programs in any language. Without a command, it serves.
#[derive(Debug, Parser)]
#[command(name = "delayq-server", version, max_term_width = 100)]
pub(crate) struct Args {
    /// The configuration file (TOML).
    #[arg(long, global = true, env = "DELAYQ_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The address to listen on, such as 127.0.0.1:7880.
    #[arg(long, global = true, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// The URL of the store, such as sqlite:PATH, redis://HOST/ or postgres://HOST/DATABASE.
    #[arg(long, global = true)]
    store: Option<String>,
    /// The URL of a second store, for tasks that are due beyond the horizon.
    #[arg(long, global = true, value_name = "URL")]
    cold_url: Option<String>,
    /// How far ahead tasks are due that are in the first store all the same, such as 1h.
    #[arg(long, global = true, value_name = "SPAN")]
    horizon: Option<String>,
    /// The log filter, such as info or delayq=debug.
    #[arg(long, global = true, env = "DELAYQ_LOG", default_value = "info")]
    log: String,
    /// A file with the first token. A server that has tokens does not read it.
    #[arg(long, value_name = "FILE")]
    bootstrap_token_file: Option<PathBuf>,
    /// Where a first start writes the first token, instead of printing it. Without it, one whose
    /// output is no terminal writes it to delayq-first.token, in the folder of an SQLite store or
    /// in the working directory.
    #[arg(long, value_name = "FILE")]
    first_token_file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// A command other than serving.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring about the state that files declare: settings, pauses, policies, targets, recurring
    /// tasks and tokens. A second run changes nothing.
    #[command(after_help = apply::EXAMPLES)]
    Apply(ApplyArgs),
    /// Check the configuration and the stores behind it.
    Check,
    /// Ask the running server of this configuration whether it is ready; exits with 0 or 1.
    Health {
        /// Ask whether it answers at all, whatever its store does: for what restarts a server.
        #[arg(long)]
        live: bool,
        /// The number of seconds to wait for its answer.
        #[arg(long, value_name = "SECONDS", default_value_t = 5)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
    },
    /// Print the completions for a shell.
    Completions {
        /// bash, zsh, fish, elvish or powershell.
        shell: Shell,
    },
    /// Print the man page.
    Man,
    /// Serve only the beanstalkd protocol, with the options of beanstalkd. Without a folder, jobs
    /// are kept in memory.
    #[cfg(feature = "beanstalkd")]
    Beanstalkd(BeanstalkdArgs),
    /// Move a namespace to another pool while it is in use, or show the progress of a move.
    Move {
        /// The namespace.
        namespace: Namespace,
        /// The pool to move it to, or `store` for the server's own store. Without it, show the
        /// progress.
        #[arg(long, value_name = "POOL")]
        to: Option<String>,
        /// Cancel the move while it is being prepared, before a task has moved.
        #[arg(long, conflicts_with = "to")]
        cancel: bool,
    },
    /// Create, list, rotate or revoke tokens. Takes effect on running servers within a second.
    #[command(subcommand)]
    Token(TokenCommand),
}

/// A command for tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token, and show it once.
    Create {
        /// Its purpose, as free text.
        #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
        name: String,
        /// What it may do: submit, work, read, operate, admin. Can be repeated.
        #[arg(long, required = true)]
        scope: Vec<Scope>,
        /// The namespace that it covers; `*` means every one.
        #[arg(long, default_value = "default")]
        namespace: String,
        /// A type or pattern that it covers. Can be repeated. Default: all types.
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// The number of days until it expires. Default: never.
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
        expires_in_days: Option<u32>,
        /// The limit of requests a second. Default: that of the configuration.
        #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..))]
        rate: Option<u32>,
        /// The largest message, in bytes. Default: that of the configuration.
        #[arg(long, value_name = "BYTES")]
        max_message_bytes: Option<usize>,
        /// The limit of scheduled and running tasks of its types in a namespace. Default: none.
        #[arg(long, value_name = "TASKS")]
        max_pending: Option<u64>,
    },
    /// List the tokens, without their secrets.
    List,
    /// Give a token a new secret, and show it once.
    Rotate {
        /// The id of the token.
        id: String,
        /// The number of minutes that the present secret stays valid.
        #[arg(long, value_name = "MINUTES", default_value_t = 60)]
        overlap_minutes: u32,
    },
    /// Revoke a token.
    Revoke {
        /// The id of the token.
        id: String,
    },
}

impl Args {
    /// The log filter.
    pub(crate) fn filter(&self) -> &str {
        match &self.command {
            #[cfg(feature = "beanstalkd")]
            Some(Command::Beanstalkd(args)) if args.verbose > 1 => "debug",
            #[cfg(feature = "beanstalkd")]
            Some(Command::Beanstalkd(args)) if args.verbose > 0 => {
                "info,delayq_server=debug,delayq_service=debug"
            }
            _ => &self.log,
        }
    }

    /// The given options, as a part of the configuration.
    pub(crate) fn flags(&self) -> Value {
        let mut flags = Map::new();
        if let Some(listen) = self.listen {
            flags.insert("listen".to_owned(), listen.to_string().into());
        }
        for (option, file) in [
            ("bootstrap_token_file", &self.bootstrap_token_file),
            ("first_token_file", &self.first_token_file),
        ] {
            if let Some(file) = file {
                flags.insert(option.to_owned(), file.to_string_lossy().into());
            }
        }
        for (option, value) in [
            ("store", &self.store),
            ("cold_url", &self.cold_url),
            ("horizon", &self.horizon),
        ] {
            if let Some(value) = value {
                flags.insert(option.to_owned(), value.as_str().into());
            }
        }
        #[cfg(feature = "beanstalkd")]
        if let Some(Command::Beanstalkd(args)) = &self.command {
            args.add_to(&mut flags);
        }
        Value::Object(flags)
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| ADDRESS_FORM.to_owned())
}

/// The given scopes, without duplicates.
pub(crate) fn scopes(given: &[Scope]) -> BTreeSet<Scope> {
    given.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Args;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Args::command().debug_assert();
    }
}
