//! `figures`: what happened to a type, by minute or hour.

use std::time::Duration;

use clap::Args;
use delayq_ops::known_type;
use delayq_plugin::store::{Figures, Spell, Step};
use delayq_plugin::{TaskSubmitService, TaskType, Timestamp};
use serde::Serialize;
use serde_json::json;

use crate::answer::{CommandResult, Report};
use crate::chart::{bar, clock};
use crate::failure::Failure;
use crate::span::span;
use crate::table::{Table, column};
use crate::text::{BAD, STRONG, styled};

/// Maximum number of lines for people: about the height of a terminal.
const MAX_LINES: u64 = 48;

/// Possible numbers of minutes or hours in one line.
const LINE_STEPS: [u64; 10] = [1, 2, 3, 5, 10, 12, 15, 24, 30, 60];

/// The figures to show.
#[derive(Debug, Args)]
pub(crate) struct FiguresArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: TaskType,
    /// The last N hours by minutes, up to 24. Default, without --days: the last hour.
    #[arg(long, value_name = "N", conflicts_with = "days",
        value_parser = clap::value_parser!(u64).range(1..=24))]
    hours: Option<u64>,
    /// The last N days by hours, up to 30.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=30))]
    days: Option<u64>,
}

/// Figures of one span, with derived values for people. In JSON the figures' fields are flattened
/// into this object.
#[derive(Serialize)]
struct FiguresLine<'a> {
    #[serde(flatten)]
    spell: &'a Spell,
    late_p50_ms: Option<u64>,
    late_p99_ms: Option<u64>,
    mean_run_ms: Option<u64>,
}

impl<'a> FiguresLine<'a> {
    fn of(spell: &'a Spell) -> Self {
        let ms = |span: Option<Duration>| span.and_then(|it| u64::try_from(it.as_millis()).ok());
        let figures = &spell.figures;
        Self {
            late_p50_ms: ms(figures.lateness.quantile(0.5)),
            late_p99_ms: ms(figures.lateness.quantile(0.99)),
            mean_run_ms: ms(figures.mean_run()),
            spell,
        }
    }
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &FiguresArgs,
) -> Result<CommandResult, Failure> {
    known_type(tasks, args.task_type.as_str()).await?;
    let now = tasks.stats(args.task_type.as_str()).await?.now;
    let (step, count) = match args.days {
        Some(days) => (Step::Hour, days * 24),
        None => (Step::Minute, args.hours.unwrap_or(1) * 60),
    };
    let length = millis(step.length());
    let begin = step.begin(now).as_millis() - length * (i64::try_from(count).unwrap_or(0) - 1);
    let since = Timestamp::from_millis(begin);
    let spells = tasks.store().figures(&args.task_type, step, since).await?;
    let lines: Vec<_> = spells.iter().map(FiguresLine::of).collect();
    let text = match spells.as_slice() {
        [] => format!(
            "nothing is known of {} in this time: no instance ran its tasks, or none of a release \
             that counts",
            args.task_type
        )
        .into(),
        spells => text(&args.task_type, spells, &Grid { since, step, count }),
    };
    let json = json!({
        "type": args.task_type, "step": step, "since": since, "now": now, "spells": lines,
    });
    CommandResult::new(text, json)
}

/// The lines shown to people.
struct Grid {
    since: Timestamp,
    step: Step,
    /// The number of minutes or hours.
    count: u64,
}

impl Grid {
    /// The number of minutes or hours in a line.
    fn width(&self) -> u64 {
        let fits = |width: &u64| self.count.div_ceil(*width) <= MAX_LINES;
        LINE_STEPS.into_iter().find(fits).unwrap_or(60)
    }

    /// The sums of the lines, including empty ones.
    fn sums(&self, spells: &[Spell]) -> Vec<Spell> {
        let length = millis(self.step.length()) * i64::try_from(self.width()).unwrap_or(1);
        let lines = i64::try_from(self.count.div_ceil(self.width())).unwrap_or(0);
        let sum = |nth: i64| {
            let at = Timestamp::from_millis(self.since.as_millis() + nth * length);
            let end = Timestamp::from_millis(at.as_millis() + length);
            let mut figures = Figures::default();
            let within = spells.iter().filter(|one| (at..end).contains(&one.at));
            within.for_each(|one| figures += &one.figures);
            Spell { at, figures }
        };
        (0..lines).map(sum).collect()
    }
}

fn text(task_type: &TaskType, spells: &[Spell], grid: &Grid) -> Report {
    let sums = grid.sums(spells);
    let most = sums.iter().map(|one| one.figures.done).max();
    let mut table = Table::new(&[
        column("FROM (UTC)"),
        column("DONE"),
        column("FAILED"),
        column("DEAD"),
        column("LATE p50").minor(2),
        column("LATE p99").minor(1),
        column("RUN").minor(3),
        column("LONGEST").minor(4),
        column("").minor(5),
    ]);
    for Spell { at, figures } in &sums {
        let late = |q| figures.lateness.quantile(q).map_or(String::new(), below);
        let bad = |count: u64| match count {
            0 => "0".to_owned(),
            count => styled(BAD, count),
        };
        let longest = match figures.longest_run_ms {
            0 => String::new(),
            ms => span(Duration::from_millis(ms)),
        };
        table.row([
            clock(*at),
            figures.done.to_string(),
            bad(figures.failed),
            bad(figures.dead),
            late(0.5),
            late(0.99),
            figures.mean_run().map_or(String::new(), span),
            longest,
            bar(figures.done, most.unwrap_or_default()),
        ]);
    }
    let unit = if grid.step == Step::Hour { "h" } else { "min" };
    let head = format!("{task_type}, a line is {} {unit}", grid.width());
    Report::from(styled(STRONG, head)).table(table)
}

/// A lateness. It is known only by buckets, each twice as large as the one before.
pub(super) fn below(late: Duration) -> String {
    format!("<{}", span(late))
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_minutes_fits_a_screen_and_nothing_is_lost() {
        let at = |minute: i64| Timestamp::from_millis(minute * 60_000);
        let spell = |minute| {
            let mut figures = Figures::default();
            figures.done = 2;
            Spell {
                at: at(minute),
                figures,
            }
        };
        let grid = Grid {
            since: at(0),
            step: Step::Minute,
            count: 1_440,
        };
        let sums = grid.sums(&[spell(0), spell(29), spell(30), spell(1_439)]);
        assert_eq!((grid.width(), sums.len()), (30, 48));
        let done: Vec<_> = sums.iter().map(|one| one.figures.done).collect();
        assert_eq!((done[0], done[1], done[47]), (4, 2, 2));
        let month = Grid {
            since: at(0),
            step: Step::Hour,
            count: 720,
        };
        assert_eq!(month.width(), 15);
    }
}
