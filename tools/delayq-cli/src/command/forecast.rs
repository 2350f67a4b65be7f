//! `forecast`: the tasks that fall due, by time.

use std::time::Duration;

use clap::Args;
use delayq_ops::{Forecast, forecast, known_types};
use delayq_plugin::TaskSubmitService;

use crate::answer::{CommandResult, Report};
use crate::chart::{bar, clock};
use crate::failure::Failure;
use crate::span::{read_span, relative, span};
use crate::table::{Table, column};
use crate::text::{BAD, STRONG, counted, styled};

/// The range of the forecast.
#[derive(Debug, Args)]
pub(crate) struct ForecastArgs {
    /// The type, or a pattern such as `mail.*`; default: all types.
    #[arg(value_name = "TYPE", default_value = "*")]
    types: String,
    /// The length of the forecast.
    #[arg(long = "in", value_name = "SPAN", default_value = "24h", value_parser = read_span)]
    horizon: Duration,
    /// The number of parts, up to 1000.
    #[arg(long, value_name = "N", default_value_t = 24)]
    steps: usize,
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &ForecastArgs,
) -> Result<CommandResult, Failure> {
    if args.types != "*" {
        known_types(tasks, &args.types).await?;
    }
    let found = forecast(tasks, &args.types, args.horizon, args.steps).await?;
    CommandResult::new(text(&found), found)
}

fn text(found: &Forecast) -> Report {
    let sum: u64 = found.buckets.iter().map(|bucket| bucket.due).sum();
    let most = found.buckets.iter().map(|bucket| bucket.due).max();
    let head = format!(
        "{} of {} due within {}",
        counted(sum, "task"),
        counted(found.types.len() as u64, "type"),
        span(found.to.since(found.from)),
    );
    let mut table = Table::new(&[
        column("FROM (UTC)"),
        column("").minor(1),
        column("DUE"),
        column("").minor(2),
    ]);
    for bucket in &found.buckets {
        table.row([
            clock(bucket.from),
            relative(bucket.from, found.from),
            bucket.due.to_string(),
            bar(bucket.due, most.unwrap_or_default()),
        ]);
    }
    if sum + found.overdue + found.later == 0 {
        return "no task is scheduled there: `delayq types` lists the types".into();
    }
    let mut report = Report::from(styled(STRONG, head));
    if sum > 0 {
        report = report.table(table);
    }
    if found.overdue > 0 {
        let overdue = format!("{} due already and waiting", found.overdue);
        report = report.lines(styled(BAD, overdue));
    }
    report = report.lines(format!("{} due later", found.later));
    if !found.is_complete {
        report = report.lines("not all was counted: name a type, or look less far ahead");
    }
    report
}
