//! The command line as a whole.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::command::Command;
use crate::command::migrate::MigrateArgs;
use crate::command::pair::PairArgs;
use crate::command::profile::ProfileCommand;
use crate::command::relay::RelayCommand;
use crate::connection::StoreArgs;

/// Exit codes, for --help and the man page.
const CODES: &str = "\
Exit codes:
  0  done
  1  refused, or nothing found: no such type or task, a taken id, no --yes, damage found by an audit
  2  wrong usage: an unknown option, an invalid id or time, a mistake in the configuration
  3  the store does not exist, cannot be reached, or cannot be used as it is
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
    /// Name stores, and choose the one that the commands work on.
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Make or complete the schema of a PostgreSQL database.
    #[command(
        after_help = "Examples:\n  delayq --url postgres://owner@db/shop migrate --roles\n  delayq migrate --sql > delayq.sql"
    )]
    Migrate(MigrateArgs),
    /// Mark a hot and a cold store as a pair again, after an older copy of one was restored.
    #[command(
        after_help = "Examples:\n  delayq --url redis://cache --cold-url postgres://db/shop pair\n  delayq pair --yes"
    )]
    Pair(PairArgs),
    /// Relay the tasks of an outbox to the store, or look after it.
    #[command(subcommand)]
    Relay(RelayCommand),
    /// Print the version.
    #[command(after_help = "Examples:\n  delayq version\n  delayq version -o json")]
    Version,
    /// Print the completions for a shell.
    #[command(
        after_help = "Examples:\n  delayq completions bash > ~/.local/share/bash-completion/completions/delayq\n  delayq completions zsh"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the man page.
    #[command(after_help = "Examples:\n  delayq man | man -l -")]
    Man,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    /// The words of a line as a shell has them, up to a pipe, a redirection or a comment.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for letter in line.chars() {
            match (quote, letter) {
                (Some(mark), letter) if letter == mark => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                (None, '|' | '>' | '#') => break,
                (None, ' ') => words.extend(word.take()),
                (_, letter) => word.get_or_insert_default().push(letter),
            }
        }
        words.extend(word);
        words
    }

    /// Checks the examples of the commands below this one. Returns their number.
    fn check_examples(command: &clap::Command) -> usize {
        let mut count = 0;
        for one in command.get_subcommands() {
            if one.has_subcommands() {
                count += check_examples(one);
                continue;
            }
            let name = one.get_name();
            let help = one.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_else(|| panic!("{name} has no examples"));
            let lines = help.strip_prefix("Examples:\n").unwrap();
            for line in lines.lines() {
                assert!(line.starts_with("  delayq ") && line.len() <= 100, "{line}");
                let parsed = Cli::try_parse_from(words(line));
                assert!(parsed.is_ok(), "{name}: {line}: {}", parsed.unwrap_err());
                count += 1;
            }
        }
        count
    }

    #[test]
    fn every_command_has_examples_that_are_right() {
        assert!(check_examples(&Cli::command()) > 60);
    }

    #[test]
    fn global_options_stand_under_a_heading_of_their_own() {
        let mut command = Cli::command();
        command.build();
        let list = command.find_subcommand_mut("list").unwrap();
        let help = list.render_long_help().to_string();
        let place = |word: &str| {
            help.find(word)
                .unwrap_or_else(|| panic!("no {word}: {help}"))
        };
        assert!(place("--state") < place("Global options:"), "{help}");
        assert!(place("Global options:") < place("--url"), "{help}");
        assert!(place("Conditions:") < place("--prefix"), "{help}");
    }

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    /// The parser takes one for the other, and fails when the value is read.
    #[test]
    fn no_argument_of_a_command_has_the_id_of_a_global_option() {
        let command = Cli::command();
        let globals = command.get_arguments().filter(|one| one.is_global_set());
        let globals: Vec<_> = globals.map(clap::Arg::get_id).collect();
        assert!(globals.len() > 8);
        let mut open: Vec<_> = command.get_subcommands().collect();
        while let Some(one) = open.pop() {
            open.extend(one.get_subcommands());
            for argument in one.get_arguments() {
                let id = argument.get_id();
                assert!(!globals.contains(&id), "{} has {id}", one.get_name());
            }
        }
    }
}
