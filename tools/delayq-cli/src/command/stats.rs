//! `stats`: the numbers of one type.

use clap::Args;
use delayq_ops::{known_type, overview_of};
use delayq_plugin::store::Figures;
use delayq_plugin::{Rate, TaskSubmitService, Timestamp};

use super::type_list::{TypeLine, lines};
use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::span::{moment, span};
use crate::text::{STRONG, counted, styled};

/// A type.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &StatsArgs,
) -> Result<CommandResult, Failure> {
    let task_type = known_type(tasks, &args.task_type).await?;
    let seen = overview_of(tasks, vec![task_type]).await?;
    match lines(seen).pop() {
        Some(line) => CommandResult::new(text(&line), line),
        None => Err(Failure::refused("the store lists no such type any more")),
    }
}

fn text(line: &TypeLine) -> String {
    let stats = &line.stats;
    let at = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| moment(time, stats.now));
    let paused = match stats.paused_until {
        None => "no".to_owned(),
        Some(Timestamp::MAX) => "until resumed".to_owned(),
        Some(until) => format!("until {}", moment(until, stats.now)),
    };
    // The time that lies `known_for` back may be before the first task was sent.
    let known_for = stats.remembered_since;
    let known_for = known_for.map_or("-".to_owned(), |since| span(stats.now.since(since)));
    let limit = |limit: Option<String>| limit.unwrap_or_else(|| "-".to_owned());
    let totals = stats.totals;
    let [half, most] = line.lateness();
    let recent = |count: fn(&Figures) -> u64| {
        let figures = line.recent.as_ref();
        figures.map_or("-".to_owned(), |figures| count(figures).to_string())
    };
    let rows = [
        ("store's clock", stats.now.to_string()),
        ("scheduled", stats.scheduled.to_string()),
        ("  of them due", stats.due.to_string()),
        ("  the first is due", at(stats.next_due)),
        ("  overdue for", span(stats.oldest_age())),
        ("running", stats.running.to_string()),
        ("dead", stats.dead.to_string()),
        ("paused", paused),
        ("served by", served_by(line)),
        ("last 5 minutes", String::new()),
        ("  done", line.pace()),
        ("  failed attempts", recent(|figures| figures.failed)),
        ("  dead", recent(|figures| figures.dead)),
        ("  lateness p50", half),
        ("  lateness p99", most),
        ("done in total", totals.done.to_string()),
        ("dead in total", totals.dead.to_string()),
        ("cancelled in total", totals.cancelled.to_string()),
        ("expired in total", totals.expired.to_string()),
        ("failed in total", totals.failed.to_string()),
        ("ended, remembered", stats.remembered.to_string()),
        ("  kept for", known_for),
        (
            "max pending",
            limit(stats.max_pending.map(|most| most.to_string())),
        ),
        ("  refused when full", stats.refused.to_string()),
        (
            "fleet concurrency",
            limit(stats.fleet_concurrency.map(|most| most.to_string())),
        ),
        (
            "fleet rate",
            limit(stats.fleet_rate.as_ref().map(rate_text)),
        ),
    ];
    let mut text = styled(STRONG, &line.task_type);
    for (name, value) in rows {
        text += &format!("\n{name:<20}{value}");
    }
    text
}

fn served_by(line: &TypeLine) -> String {
    match line.served_by {
        0 => "nobody".to_owned(),
        count => counted(count as u64, "instance"),
    }
}

/// A rate, such as `100 in 1s, bursts of 10`.
pub(super) fn rate_text(rate: &Rate) -> String {
    let Rate { starts, per, burst } = *rate;
    format!("{starts} in {}, bursts of {burst}", span(per))
}
