//! delayq beside its peers: every case of every contender is a process of its own on a server of
//! its own, and all of them are run by one program (`proof/bench/peers`), round by round in turn.

mod case;
mod contender;
mod outcome;
mod place;
mod program;
mod table;

use std::path::Path;

use serde_json::json;

use crate::Failure;
use crate::document;
use crate::machine::Machine;
use crate::peers::case::{Case, Scale};
use crate::peers::contender::Contender;
use crate::peers::outcome::Outcome;
use crate::peers::program::Programs;
use crate::peers::table::Row;

/// Those that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// On Redis, and on beanstalkd.
    Redis,
    /// On PostgreSQL.
    Postgres,
}

/// What is to be measured.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) field: Field,
    pub(crate) is_quick: bool,
    /// Only peers whose name contains this text; delayq always runs.
    pub(crate) peer: &'a str,
    /// Only cases whose name contains this text.
    pub(crate) case: &'a str,
    /// Where all samples go, as JSON.
    pub(crate) json: Option<&'a Path>,
}

/// Measures, prints the tables, and writes them into the document when all was measured in full.
pub(crate) async fn run(wanted: &Wanted<'_>) -> Result<(), Failure> {
    let machine = Machine::look()?;
    println!("{machine}");
    let head = format!("`cargo xtask bench --peers` on {machine}.");
    let section = measured(wanted, &head).await?;
    println!("\n{section}");
    let is_all = wanted.peer.is_empty() && wanted.case.is_empty();
    if !wanted.is_quick && is_all && wanted.field == Field::Redis {
        document::write_peers(&section)?;
    }
    Ok(())
}

/// Builds the peers, measures, and makes the tables.
pub(crate) async fn measured(wanted: &Wanted<'_>, head: &str) -> Result<String, Failure> {
    let (cases, scale) = match (wanted.field, wanted.is_quick) {
        (Field::Redis, false) => (case::OF_REDIS, Scale::FULL),
        (Field::Redis, true) => (case::OF_REDIS, Scale::QUICK),
        (Field::Postgres, false) => (case::OF_POSTGRES, Scale::POSTGRES),
        (Field::Postgres, true) => (case::OF_POSTGRES, Scale::QUICK),
    };
    let (programs, mut skipped) = Programs::build(wanted.field).await?;
    let is_wanted = |it: &&Contender| it.is_delayq() || it.name.contains(wanted.peer);
    let all = match wanted.field {
        Field::Redis => contender::of_redis(&programs, &mut skipped),
        Field::Postgres => contender::of_postgres(&programs),
    };
    let contenders: Vec<_> = all.iter().filter(is_wanted).collect();
    for reason in &skipped {
        println!("skipped: {reason}");
    }
    let mut rows = Vec::new();
    for case in cases
        .into_iter()
        .filter(|case| case.name().contains(wanted.case))
    {
        println!("  {} ..", case.name());
        rows.extend(measure(case, &contenders, &programs, &scale).await);
    }
    if let Some(file) = wanted.json {
        let report = json!({ "head": head, "scale": scale, "skipped": skipped, "rows": rows });
        std::fs::write(file, serde_json::to_string_pretty(&report)? + "\n")?;
        println!("all measurements: {}", file.display());
    }
    Ok(table::section(head, &contenders, &skipped, &rows))
}

/// The contenders take turns, so that all of them see the same machine. Nothing that one of them
/// does ends the benchmark: it is what was measured.
async fn measure(
    case: Case,
    contenders: &[&Contender],
    programs: &Programs,
    scale: &Scale,
) -> Vec<Row> {
    let row = |contender: &&Contender| Row::new(case, contender);
    let mut rows: Vec<_> = contenders.iter().map(row).collect();
    for round in 0..case.rounds(scale) {
        for (contender, row) in contenders.iter().zip(&mut rows) {
            let outcome = programs.run(contender, case, scale).await;
            let outcome = outcome.unwrap_or_else(|failure| Outcome::Failed(failure.to_string()));
            // The first of several rounds warms up.
            let is_warm_up = case.warms_up() && round == 0;
            let remark = if is_warm_up { " (warm-up)" } else { "" };
            println!("    {}: {outcome}{remark}", contender.name);
            if !is_warm_up {
                row.outcomes.push(outcome);
            }
        }
    }
    rows
}
