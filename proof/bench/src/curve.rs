//! Scale curves: what becomes of a figure when one thing grows. `cargo xtask bench --curves`.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

mod beyond;
mod chart;
mod counted;
mod ground;
mod instance;
mod instance_group;
mod many_types;
mod message_size;
mod pace;
mod page;
mod persistence;
mod processes;
mod processor;
mod several;
mod sheet;
mod waiting;

pub(crate) use self::instance::serve;

use crate::Failure;
use crate::machine::Machine;
use crate::stage::Place;
use sheet::Sheet;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Curve {
    /// Tasks that wait.
    Waiting,
    /// Task types of a process.
    Types,
    /// Processes on one Redis.
    Processes,
    /// Bytes of a message.
    MessageSize,
    /// What an acknowledgement survives.
    Persistence,
    /// Servers: encrypted, replicated, a cluster.
    Beyond,
}

impl Curve {
    /// As it is written on the command line and in the names of files.
    fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Types => "types",
            Self::Processes => "processes",
            Self::MessageSize => "message-size",
            Self::Persistence => "persistence",
            Self::Beyond => "beyond",
        }
    }

    async fn measure(self, extent: &Extent) -> Result<Sheet, Failure> {
        match self {
            Self::Waiting => waiting::measure(extent).await,
            Self::Types => many_types::measure(extent).await,
            Self::Processes => processes::measure(extent).await,
            Self::MessageSize => message_size::measure(extent).await,
            Self::Persistence => persistence::measure(extent).await,
            Self::Beyond => beyond::measure(extent).await,
        }
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Rounds, each over all places of a curve, so that all of them see the same machine.
    rounds: usize,
    /// Tasks of one round in bulk.
    tasks: usize,
    /// Tasks of one round of single calls.
    single: usize,
    /// Bytes of the messages of one round, at most.
    bytes: usize,
    /// Calls of each kind whose time is taken, with so many tasks waiting.
    calls: usize,
    /// The most tasks that wait in Redis, and in SQLite.
    waiting: [(Place, usize); 2],
    /// How long an idle or a steadily busy process is watched.
    span: Duration,
}

impl Extent {
    pub(crate) const FULL: Self = Self {
        rounds: 3,
        tasks: 150_000,
        single: 30_000,
        bytes: 200_000_000,
        calls: 2_000,
        waiting: [(Place::Redis, 10_000_000), (Place::Sqlite, 1_000_000)],
        span: Duration::from_secs(10),
    };

    /// Large enough to see that all works; the figures vary a lot.
    pub(crate) const QUICK: Self = Self {
        rounds: 1,
        tasks: 40_000,
        single: 5_000,
        bytes: 20_000_000,
        calls: 200,
        waiting: [(Place::Redis, 100_000), (Place::Sqlite, 100_000)],
        span: Duration::from_secs(2),
    };
}

/// Measures `only` one curve or all of them, and shows their tables. With `document` they go to
/// docs/, each as soon as it is measured. One that fails does not keep the others from being
/// measured.
pub(crate) async fn run(
    only: Option<Curve>,
    extent: &Extent,
    document: bool,
    json: Option<&Path>,
) -> Result<(), Failure> {
    let machine = Machine::look()?;
    println!("{machine}");
    let curves = only.map_or_else(|| Curve::value_variants().to_vec(), |curve| vec![curve]);
    let (mut sheets, mut failed) = (Vec::new(), Vec::new());
    for curve in curves {
        println!("\n{}", curve.name());
        let sheet = match curve.measure(extent).await {
            Ok(sheet) => sheet,
            Err(error) => {
                println!("  failed: {error}");
                failed.push(curve.name());
                continue;
            }
        };
        println!("\n{}", sheet.table());
        if document {
            page::write(curve, &machine, &sheet)?;
        }
        sheets.push((curve, sheet));
    }
    if let Some(file) = json {
        std::fs::write(
            file,
            serde_json::to_string_pretty(&(machine, sheets))? + "\n",
        )?;
        println!("all measurements: {}", file.display());
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("not measured: {}", failed.join(", ")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_named_as_on_the_command_line() {
        for curve in Curve::value_variants() {
            let value = curve.to_possible_value().unwrap();
            assert_eq!(value.get_name(), curve.name());
        }
    }
}
