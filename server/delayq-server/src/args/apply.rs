//! The options of `apply`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// For --help.
pub(super) const EXAMPLES: &str = "\
Examples:
  delayq-server apply state.toml --dry-run
  delayq-server apply state.toml --tokens-to tokens
  delayq-server apply state.d --prune
  delayq-server apply state.toml --check -o json

Exit codes: 0 done, or nothing to do; 1 failed, and with --check: there are differences; 2 wrong
usage, and with --check: failed.";

/// The files, and what is done with them.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// A file .toml or .json, or a folder with such files, which are one state together.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The same, and exit with 1 if something would be done.
    #[arg(long)]
    pub(crate) check: bool,
    /// Remove what an earlier apply of this state made and the files have no more. What somebody
    /// else made or changed stays.
    #[arg(long)]
    pub(crate) prune: bool,
    /// The folder for the secrets of new tokens and targets, a file of mode 0600 each. Without it,
    /// the files give the secrets.
    #[arg(long, value_name = "DIR")]
    pub(crate) tokens_to: Option<PathBuf>,
    /// The form of the report.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}
