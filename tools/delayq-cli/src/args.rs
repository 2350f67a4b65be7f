//! The command line as a whole.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::command::Command;
use crate::connection::StoreArgs;

/// Exit codes, for --help and the man page.
const CODES: &str = "\
Exit codes:
  0  done
  1  refused, or nothing found: no such task, a taken id, no --yes, damage that an audit found
  2  wrong usage: an unknown option, an id or a time that is none, a mistake in the configuration
  3  the store is not there, is not reached, or cannot be used as it is
  4  in doubt: the answer of the store was lost; the same command can be repeated";

/// Inspect the tasks of a delayq store; send, move, cancel and requeue them.
#[derive(Debug, Parser)]
#[command(name = "delayq", version, after_help = CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(subcommand)]
    pub(crate) action: Action,
}

/// The action to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    #[command(flatten)]
    Store(Box<Command>),
    /// Print the completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the man page.
    Man,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }
}
