//! The page of a type.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use delayq_ops::{Forecast, TypeOverview};
use delayq_plugin::store::Spell;
use delayq_plugin::{InstanceInfo, Result, Timestamp};

use super::Page;
use super::series::Series;
use super::tabs::{Tab, tabs};
use crate::app::App;
use crate::cache::{Cache, Seen};
use crate::fields::Link;
use crate::look::{Ahead, Range, TypeLook};
use crate::moment::Moment;
use crate::said::{DASH, count, counted, late, maybe_span, one_line, rate, visible};
use crate::shell::Nav;
use crate::svg::{Bar, bars};
use crate::tag::{Tag, troubles};
use crate::viewer::Role;
use crate::visit::Visit;

/// The number of rows in the table under the charts.
const ROWS: usize = 60;

/// The page of a type, with the ranges of charts and forecast.
#[derive(Clone, Debug)]
pub(crate) struct TypePage {
    name: String,
    range: Range,
    ahead: Ahead,
}

/// A link to another range.
struct Choice {
    name: &'static str,
    href: String,
    is_here: bool,
}

/// A setting or a fact.
struct Fact {
    name: &'static str,
    value: String,
    class: &'static str,
}

/// A minute or an hour in the table.
struct SpellRow {
    at: Moment,
    done: String,
    failed: String,
    dead: String,
    p50: String,
    p99: String,
    mean: String,
    longest: String,
}

/// An instance that serves the type.
struct Serving {
    id: String,
    host: String,
    started: String,
    done: String,
    failed: String,
    p99: String,
}

/// The tasks that become due.
struct Falls {
    bars: Vec<Bar>,
    width: usize,
    sum: String,
    overdue: String,
    later: String,
    is_complete: bool,
}

/// The viewer's rights. Controls without the right are not shown.
struct May {
    operate: bool,
    administer: bool,
}

#[derive(Template)]
#[template(path = "type.html")]
struct TypeBody<'a> {
    visit: &'a Visit,
    name: &'a str,
    may: May,
    tags: Vec<Tag>,
    is_paused: bool,
    paused: String,
    tabs: Vec<Tab>,
    ranges: Vec<Choice>,
    aheads: Vec<Choice>,
    figures: Option<String>,
    spells: Vec<SpellRow>,
    unit: &'static str,
    point: &'static str,
    falls: Option<Falls>,
    forecast_error: String,
    serving: Vec<Serving>,
    facts: Vec<Fact>,
    settings: SettingsForm,
}

/// The settings as shown in the form.
#[derive(Default)]
struct SettingsForm {
    max_pending: String,
    fleet_concurrency: String,
    fleet_rate: String,
}

#[derive(Template)]
#[template(path = "type_unknown.html")]
struct Unknown<'a> {
    name: &'a str,
    home: String,
}

impl Page for TypePage {
    type Data = TypeLook;
    const NAV: Nav = Nav::Elsewhere;

    fn of(visit: &Visit) -> Self {
        Self {
            name: visit.fields.get("name").to_owned(),
            range: Range::read(visit.fields.get("range")),
            ahead: Ahead::read(visit.fields.get("ahead")),
        }
    }

    fn title(&self) -> String {
        one_line(&self.name, 100)
    }

    fn key(&self) -> String {
        format!("{} {} {}", self.name, self.range.name(), self.ahead.name())
    }

    fn cache(app: &App) -> &Cache<TypeLook> {
        &app.shelf.of_type
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<TypeLook>> + Send + 'static {
        let (tasks, forecasts) = (app.tasks.clone(), Arc::clone(&app.shelf.forecast));
        TypeLook::read(tasks, forecasts, self.name.clone(), self.range, self.ahead)
    }

    fn body(&self, visit: &Visit, data: &TypeLook) -> askama::Result<String> {
        let Some(seen) = data.overview.types.first() else {
            let home = visit.href(&Link::to("/"));
            let name = &self.title();
            return Unknown { name, home }.render();
        };
        let stats = &seen.stats;
        let may = May {
            operate: visit.may(Role::Operator),
            administer: visit.may(Role::Admin),
        };
        let spells = data.spells.as_deref();
        TypeBody {
            visit,
            name: &self.name,
            may,
            tags: troubles(seen),
            is_paused: stats.paused_until.is_some(),
            paused: paused(stats.paused_until),
            tabs: tabs(visit, &self.name, stats, None),
            ranges: self.ranges(visit),
            aheads: self.aheads(visit),
            figures: spells.map(|spells| Series::read(self.range, spells, data.now()).json()),
            spells: spells.map_or_else(Vec::new, spell_rows),
            unit: match self.range {
                Range::Hour | Range::Day => "Minute",
                Range::Month => "Hour",
            },
            point: match self.range {
                Range::Hour => "per minute",
                Range::Day => "per 5 minutes",
                Range::Month => "per hour",
            },
            falls: data.forecast.good.as_ref().map(|good| falls(&good.data)),
            forecast_error: forecast_error(&data.forecast),
            serving: serving(seen, &data.overview.instances),
            facts: facts(seen),
            settings: SettingsForm {
                max_pending: text(stats.max_pending),
                fleet_concurrency: text(stats.fleet_concurrency),
                fleet_rate: text(stats.fleet_rate),
            },
        }
        .render()
    }
}

fn text(known: Option<impl ToString>) -> String {
    known.map_or_else(String::new, |value| value.to_string())
}

fn paused(until: Option<Timestamp>) -> String {
    match until {
        None => String::new(),
        Some(Timestamp::MAX) => "until it is resumed".to_owned(),
        Some(until) => format!("until {until}"),
    }
}

fn forecast_error(seen: &Seen<Forecast>) -> String {
    match &seen.error {
        Some(error) => visible(&error.to_string()),
        None => String::new(),
    }
}

impl TypePage {
    fn link(&self) -> Link {
        Link::to("/type").with("name", &self.name)
    }

    fn ranges(&self, visit: &Visit) -> Vec<Choice> {
        let choice = |range: Range| Choice {
            name: range.name(),
            href: visit.href(
                &self
                    .link()
                    .with("range", range.name())
                    .with("ahead", self.ahead.name()),
            ),
            is_here: range == self.range,
        };
        Range::ALL.map(choice).into()
    }

    fn aheads(&self, visit: &Visit) -> Vec<Choice> {
        let choice = |ahead: Ahead| Choice {
            name: ahead.name(),
            href: visit.href(
                &self
                    .link()
                    .with("range", self.range.name())
                    .with("ahead", ahead.name()),
            ),
            is_here: ahead == self.ahead,
        };
        Ahead::ALL.map(choice).into()
    }
}

fn spell_rows(spells: &[Spell]) -> Vec<SpellRow> {
    let row = |spell: &Spell| {
        let of = &spell.figures;
        SpellRow {
            at: Moment::whole(spell.at),
            done: count(of.done),
            failed: count(of.failed),
            dead: count(of.dead),
            p50: late(Some(&of.lateness), 0.5),
            p99: late(Some(&of.lateness), 0.99),
            mean: maybe_span(of.mean_run()),
            longest: maybe_span(
                of.mean_run()
                    .map(|_| Duration::from_millis(of.longest_run_ms)),
            ),
        }
    };
    spells.iter().rev().take(ROWS).map(row).collect()
}

fn falls(forecast: &Forecast) -> Falls {
    let sum: u64 = forecast.buckets.iter().map(|bucket| bucket.due).sum();
    let numbers = forecast.buckets.iter().map(|bucket| {
        let title = format!("{}: {}", bucket.from, counted(bucket.due, "task"));
        (bucket.due, title)
    });
    let bars = bars(numbers);
    Falls {
        width: bars.len() * 10,
        bars,
        sum: count(sum),
        overdue: count(forecast.overdue),
        later: count(forecast.later),
        is_complete: forecast.is_complete,
    }
}

fn serving(seen: &TypeOverview, instances: &[InstanceInfo]) -> Vec<Serving> {
    let serves = instances
        .iter()
        .filter(|one| one.may_serve(&seen.task_type));
    let row = |one: &InstanceInfo| {
        let work = one.recent.as_ref();
        let figures = work.and_then(|recent| recent.of(&seen.task_type));
        let number = |of: Option<u64>| match (work, of) {
            (None, _) => DASH.to_owned(),
            (_, of) => count(of.unwrap_or(0)),
        };
        Serving {
            id: one.id.short().to_owned(),
            host: format!("{}, process {}", one_line(&one.host, 100), one.pid),
            started: number(figures.map(|of| of.started)),
            done: number(figures.map(|of| of.done)),
            failed: number(figures.map(|of| of.failed)),
            p99: late(figures.map(|of| &of.lateness), 0.99),
        }
    };
    serves.map(row).collect()
}

fn facts(seen: &TypeOverview) -> Vec<Fact> {
    let stats = &seen.stats;
    let fact = |name, value: String| Fact {
        name,
        class: if value == "0" || value == DASH {
            "zero"
        } else {
            ""
        },
        value,
    };
    let lateness = seen.recent.as_ref().map(|recent| &recent.lateness);
    let age = Some(stats.oldest_age()).filter(|age| !age.is_zero());
    vec![
        fact(
            "Done, last 5 min",
            seen.rate().map_or_else(|| DASH.to_owned(), rate),
        ),
        fact("Late p50, last 5 min", late(lateness, 0.5)),
        fact("Late p99, last 5 min", late(lateness, 0.99)),
        fact("Due now", count(stats.due)),
        fact("Oldest due for", maybe_span(age)),
        fact("Failed attempts", count(stats.totals.failed)),
        fact("Refused: queue full", count(stats.refused)),
        fact("Ended, still known", count(stats.remembered)),
    ]
}
