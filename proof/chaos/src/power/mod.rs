//! Power loss, modelled exactly: after it, only what had been synced is sure to be there.
//!
//! The processes that write to the store's files (redis-server, or everybody who has the `SQLite`
//! file open) are started with a library that writes down what they do to them. They are killed
//! under load, again and again, and each time whatever had not been synced is undone, in whole or
//! in part, before they start again on what is left. The record of all that time is then held
//! against every promise.
//!
//! What the model assumes of a disk:
//!
//! - What overwrites a part of a file and is not synced survives whole, in any of its 512-byte
//!   sectors, or not at all, whatever becomes of earlier and later writes.
//! - A file grows and shrinks in order, and never grows before its new part is there: of unsynced
//!   appends the first few survive, and the last of these up to any sector. So it is on ext4 in its
//!   default mode, `data=ordered`.
//! - Names change in order. A sync of a folder makes sure of its names, a sync of a file of its
//!   own, and either of all changes of names before, as on ext4. A file whose name is sure may
//!   still be without its content.
//! - A file that is mapped to be written holds anything afterwards.
//! - A sync that has returned is kept: a disk that lies about it is not modelled.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a run shows its progress and its result"
)]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::ValueEnum;

use crate::check::Outcome;
use crate::run::{Result, StoreKind, Workload, play};

mod aof;
mod cut;
mod cycle;
mod disk;
mod journal;
mod machine;
mod pace;
mod tally;

#[cfg(test)]
mod tests;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How many times the power goes.
    #[arg(long, default_value_t = 1_000)]
    pub cycles: u32,
    /// All choices depend on it; when things happen does not.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where tasks are kept; it says what may be lost: nothing that was acknowledged (sqlite,
    /// redis), or what was acknowledged since the last sync (redis-everysec).
    #[arg(long, value_enum, default_value = "sqlite")]
    pub store: StoreKind,
    /// After so many cycles a store is drained and looked at, and an empty one takes its place.
    #[arg(long, default_value_t = 100)]
    pub store_cycles: u32,
    /// Tasks a second, while there is power.
    #[arg(long, default_value_t = 500)]
    pub rate: u64,
    /// Where the record is written; without it, a new temporary folder, kept only when the run
    /// fails.
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// Has redis-server cut off the torn end of its file by itself, as is its default. Otherwise
    /// redis-check-aof does it, as the guide says: the server may leave half a script in the file.
    #[arg(long)]
    pub load_truncated: bool,
    /// The store answers before it syncs, a mistake that has to be found.
    #[arg(long, hide = true)]
    pub unsynced: bool,
}

/// Runs it, and shows the verdict. A store that does not come back is a broken promise, too.
///
/// As [`run::run`](crate::run::run()), it starts this very program again for each process.
#[must_use]
pub fn run(args: &Args) -> Outcome {
    play(Workload::brief());
    try_run(args).unwrap_or_else(|failure| {
        eprintln!("the run could not be finished: {failure}");
        Outcome::Invalid
    })
}

fn try_run(args: &Args) -> Result<Outcome> {
    if args.store.is_replicated() || args.store == StoreKind::Tiered {
        println!("INVALID: the power of one machine is what this takes away");
        return Ok(Outcome::Invalid);
    }
    if let Some(why) = missing(args.store) {
        println!("INVALID: {why}");
        return Ok(Outcome::Invalid);
    }
    let folder = if let Some(folder) = &args.folder {
        std::fs::create_dir_all(folder)?;
        folder.canonicalize()?
    } else {
        let mut new = tempfile::Builder::new();
        new.prefix("delayq-power-").tempdir()?.keep()
    };
    println!("record: {}", folder.display());
    println!(
        "again:  cargo xtask power --cycles {} --seed {} --store {} --store-cycles {} --rate {}",
        args.cycles,
        args.seed,
        name(args.store),
        args.store_cycles,
        args.rate
    );
    let runtime = tokio::runtime::Builder::new_current_thread();
    let outcome = { runtime }
        .enable_all()
        .build()?
        .block_on(cycle::play(args, &folder))?;
    if outcome == Outcome::Held && args.folder.is_none() {
        std::fs::remove_dir_all(&folder)?;
    } else {
        println!(
            "kept: {}; delayq-chaos check FOLDER repeats the verdict",
            folder.display()
        );
    }
    Ok(outcome)
}

fn name(store: StoreKind) -> String {
    let value = store.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What this machine lacks.
fn missing(store: StoreKind) -> Option<String> {
    let has = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null());
        command.stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let programs: &[(&str, &str)] = if store.is_redis() {
        &[
            ("cc", "gcc"),
            ("redis-server", "redis-server"),
            ("setpriv", "util-linux"),
        ]
    } else {
        &[("cc", "gcc")]
    };
    let absent = programs.iter().find(|(program, _)| !has(program));
    absent.map(|(program, package)| {
        format!("{program} is not installed (Debian: apt-get install {package})")
    })
}
