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

/// What is to be measured.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) is_quick: bool,
    /// Only peers whose name contains this text; delayq always runs.
    pub(crate) peer: &'a str,
    /// Only cases whose name contains this text.
    pub(crate) case: &'a str,
    /// Where all samples go, as JSON.
    pub(crate) json: Option<&'a Path>,
}

/// Builds the peers, measures, prints the tables, and writes them into the document when all was
/// measured in full.
pub(crate) async fn run(wanted: &Wanted<'_>) -> Result<(), Failure> {
    let scale = if wanted.is_quick {
        Scale::QUICK
    } else {
        Scale::FULL
    };
    let (programs, mut skipped) = Programs::build().await?;
    let is_wanted = |it: &&Contender| it.is_delayq() || it.name.contains(wanted.peer);
    let all = contender::all(&programs, &mut skipped);
    let contenders: Vec<_> = all.iter().filter(is_wanted).collect();
    let machine = Machine::look()?;
    println!("{machine}");
    for reason in &skipped {
        println!("skipped: {reason}");
    }
    let mut rows = Vec::new();
    for case in case::ALL
        .into_iter()
        .filter(|case| case.name().contains(wanted.case))
    {
        println!("  {} ..", case.name());
        rows.extend(measure(case, &contenders, &programs, &scale).await);
    }
    let section = table::section(&machine, &contenders, &skipped, &rows);
    println!("\n{section}");
    if let Some(file) = wanted.json {
        let report =
            json!({ "machine": machine, "scale": scale, "skipped": skipped, "rows": rows });
        std::fs::write(file, serde_json::to_string_pretty(&report)? + "\n")?;
        println!("all measurements: {}", file.display());
    }
    if !wanted.is_quick && wanted.peer.is_empty() && wanted.case.is_empty() {
        document::write_peers(&section)?;
    }
    Ok(())
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
