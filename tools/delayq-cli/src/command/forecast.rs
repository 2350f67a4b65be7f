//! `forecast`: the tasks that fall due, by time.

use std::time::Duration;

use clap::Args;
use delayq_ops::{Forecast, forecast};
use delayq_plugin::TaskSubmitService;

use crate::answer::CommandResult;
use crate::chart::{bar, clock};
use crate::failure::Failure;
use crate::span::{read_span, relative, span};
use crate::text::{BAD, STRONG, counted, styled, table};

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
    let found = forecast(tasks, &args.types, args.horizon, args.steps).await?;
    CommandResult::new(text(&found), found)
}

fn text(found: &Forecast) -> String {
    let sum: u64 = found.buckets.iter().map(|bucket| bucket.due).sum();
    let most = found.buckets.iter().map(|bucket| bucket.due).max();
    let head = format!(
        "{} of {} due within {}",
        counted(sum, "task"),
        counted(found.types.len() as u64, "type"),
        span(found.to.since(found.from)),
    );
    let mut table = table(&["FROM (UTC)", "", "DUE", ""]);
    for bucket in &found.buckets {
        table.add_row([
            clock(bucket.from),
            relative(bucket.from, found.from),
            bucket.due.to_string(),
            bar(bucket.due, most.unwrap_or_default()),
        ]);
    }
    if sum + found.overdue + found.later == 0 {
        return "no task is scheduled there: `delayq types` lists the types".to_owned();
    }
    let mut text = styled(STRONG, head);
    if sum > 0 {
        text += &format!("\n{table}");
    }
    if found.overdue > 0 {
        let overdue = format!("{} due already and waiting", found.overdue);
        text += &format!("\n{}", styled(BAD, overdue));
    }
    text += &format!("\n{} due later", found.later);
    if !found.is_complete {
        text += "\nnot all was counted: name a type, or look less far ahead";
    }
    text
}
