//! The overview of all types and their problems.

use std::cmp::Ordering;
use std::sync::Arc;

use askama::Template;
use delayq_ops::{MAX_OVERVIEW_TYPES, Overview, Trouble, TypeOverview, overview_of_all};
use delayq_plugin::store::{Lateness, Spell, Step};
use delayq_plugin::{Result, TaskState, Timestamp};

use super::Page;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::figure::Figure;
use crate::said::{DASH, count, late, maybe_span, rate};
use crate::shell::{Nav, OVERVIEW};
use crate::sort::{Column, Head, Sort};
use crate::svg::spark;
use crate::tag::{Tag, troubles};
use crate::viewer::Role;
use crate::visit::Visit;

/// The number of types on a page.
const PAGE: usize = 50;

const P50: &str = "50 % of the starts of the last 5 minutes were less late than this";
const P99: &str = "99 % of the starts of the last 5 minutes were less late than this";

const COLUMNS: [Column; 11] = [
    Column::text("type", "Type"),
    Column::number("done", "Done, last hour").left(),
    Column::number("rate", "Rate").titled("tasks done, in the last 5 minutes"),
    Column::number("p50", "Late p50").titled(P50),
    Column::number("p99", "Late p99").titled(P99),
    Column::number("scheduled", "Scheduled"),
    Column::number("due", "Due"),
    Column::number("oldest", "Oldest due"),
    Column::number("running", "Running"),
    Column::number("dead", "Dead"),
    Column::number("serving", "Instances").titled("instances that serve it"),
];

/// The overview page.
#[derive(Clone, Debug)]
pub(crate) struct OverviewPage {
    /// Only types whose name contains this text.
    q: String,
    /// Only types with problems.
    is_trouble: bool,
    /// The order of the types; those with the worst problems first, unless one is chosen.
    sort: Sort,
    /// The number of the page, from 1.
    number: usize,
}

/// A total at the top of the page.
struct Total {
    figure: Figure,
    class: &'static str,
}

/// One type.
struct OverviewRow {
    name: String,
    href: String,
    /// The class of its worst problem.
    class: &'static str,
    tags: Vec<Tag>,
    spark: String,
    spark_said: String,
    figures: Vec<Figure>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewBody<'a> {
    visit: &'a Visit,
    page: &'a OverviewPage,
    action: String,
    /// The page itself, to which an action leads back.
    own: Link,
    totals: Vec<Total>,
    heads: Vec<Head>,
    rows: Vec<OverviewRow>,
    trouble_count: usize,
    /// The number of matching types.
    found: usize,
    all_href: String,
    trouble_href: String,
    previous: Option<String>,
    next: Option<String>,
    pages: usize,
    /// The number of types beyond the maximum shown.
    left_out: usize,
    may_operate: bool,
}

impl Page for OverviewPage {
    type Data = Overview;
    const NAV: Nav = Nav::Overview;

    fn of(visit: &Visit) -> Self {
        Self {
            q: visit.fields.get("q").to_owned(),
            is_trouble: visit.fields.get("only") == "trouble",
            sort: Sort::read(&visit.fields, &COLUMNS),
            number: visit.fields.number("page").unwrap_or(1).max(1),
        }
    }

    fn title(&self) -> String {
        "Overview".to_owned()
    }

    fn key(&self) -> String {
        OVERVIEW.to_owned()
    }

    fn cache(app: &App) -> &Cache<Overview> {
        &app.shelf.overview
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<Overview>> + Send + 'static {
        let tasks = app.tasks.clone();
        async move { overview_of_all(&tasks).await }
    }

    fn body(&self, visit: &Visit, data: &Overview) -> askama::Result<String> {
        let named = data.types.iter().filter(|one| self.is_meant(one));
        let mut named: Vec<_> = named.collect();
        named.sort_by(|a, b| self.order(a, b));
        let pages = named.len().div_ceil(PAGE).max(1);
        let number = self.number.min(pages);
        let rows = named.iter().skip((number - 1) * PAGE).take(PAGE);
        let turn = |number: usize| visit.href(&self.link(number, self.is_trouble));
        let heads = || self.link(1, self.is_trouble).without("sort");
        OverviewBody {
            visit,
            page: self,
            action: visit.href(&Link::to("/")),
            own: self.link(number, self.is_trouble),
            totals: totals(visit, data),
            heads: self.sort.heads(visit, &COLUMNS, heads),
            rows: rows.map(|one| row(visit, one)).collect(),
            trouble_count: data.types.iter().filter(|one| is_trouble(one)).count(),
            found: named.len(),
            all_href: visit.href(&self.link(1, false)),
            trouble_href: visit.href(&self.link(1, true)),
            previous: (number > 1).then(|| turn(number - 1)),
            next: (number < pages).then(|| turn(number + 1)),
            pages,
            left_out: data.type_count.saturating_sub(MAX_OVERVIEW_TYPES),
            may_operate: visit.may(Role::Operator),
        }
        .render()
    }
}

impl OverviewPage {
    fn is_meant(&self, seen: &TypeOverview) -> bool {
        let is_named = seen.task_type.as_str().contains(&self.q);
        is_named && (!self.is_trouble || is_trouble(seen))
    }

    fn link(&self, number: usize, is_trouble: bool) -> Link {
        let only = if is_trouble { "trouble" } else { "" };
        let number = if number > 1 {
            number.to_string()
        } else {
            String::new()
        };
        Link::to("/")
            .with("q", &self.q)
            .with("only", only)
            .with("sort", self.sort.field())
            .with("page", number)
    }

    fn order(&self, a: &TypeOverview, b: &TypeOverview) -> Ordering {
        let by_number = |of: fn(&TypeOverview) -> u64| of(a).cmp(&of(b));
        let by_lateness = |q| quantile(a, q).cmp(&quantile(b, q));
        let order = match self.sort.key {
            "type" => a.task_type.cmp(&b.task_type),
            "done" => by_number(|one| one.minutes.iter().map(|one| one.figures.done).sum()),
            "rate" => a
                .rate()
                .unwrap_or(-1.0)
                .total_cmp(&b.rate().unwrap_or(-1.0)),
            "p50" => by_lateness(0.5),
            "p99" => by_lateness(0.99),
            "scheduled" => by_number(|one| one.stats.scheduled),
            "due" => by_number(|one| one.stats.due),
            "oldest" => a.stats.oldest_age().cmp(&b.stats.oldest_age()),
            "running" => by_number(|one| one.stats.running),
            "dead" => by_number(|one| one.stats.dead),
            "serving" => a.serving.cmp(&b.serving),
            _ => gravity(b).cmp(&gravity(a)),
        };
        let order = self.sort.directed(order);
        order.then_with(|| a.task_type.cmp(&b.task_type))
    }
}

fn is_trouble(seen: &TypeOverview) -> bool {
    !seen.troubles.is_empty()
}

/// How bad a type's worst problem is, and how many tasks it keeps waiting. What an operator did on
/// purpose comes last.
fn gravity(seen: &TypeOverview) -> (u8, u64) {
    let worst = seen.troubles.iter().map(|trouble| match trouble {
        Trouble::Paused => 1,
        Trouble::Dead => 2,
        Trouble::Behind => 3,
        Trouble::Stuck => 4,
        _ => 5,
    });
    let worst = worst.max().unwrap_or(0);
    let waiting = match worst {
        0 => 0,
        2 => seen.stats.dead,
        _ => seen.stats.due,
    };
    (worst, waiting)
}

fn lateness(seen: &TypeOverview) -> Option<&Lateness> {
    seen.recent.as_ref().map(|recent| &recent.lateness)
}

fn quantile(seen: &TypeOverview, q: f64) -> Option<(bool, std::time::Duration)> {
    let lateness = lateness(seen)?;
    Some((lateness.is_beyond(q), lateness.quantile(q)?))
}

fn totals(visit: &Visit, data: &Overview) -> Vec<Total> {
    let sum = |of: fn(&TypeOverview) -> u64| data.types.iter().map(of).sum::<u64>();
    let total = |figure, class| Total { figure, class };
    let plain = |figure| total(figure, "");
    let oldest = data.types.iter().map(|one| one.stats.oldest_age()).max();
    let oldest = oldest.filter(|age| !age.is_zero());
    let is_known = data.types.iter().any(|one| one.recent.is_some());
    let done: f64 = data.types.iter().filter_map(TypeOverview::rate).sum();
    let done = if is_known {
        rate(done)
    } else {
        DASH.to_owned()
    };
    let (due, dead) = (sum(|one| one.stats.due), sum(|one| one.stats.dead));
    let instances = data.instances.len() as u64;
    let instances = Figure::count("Instances", instances);
    vec![
        plain(Figure::count("Types", data.type_count as u64)),
        plain(Figure::count("Scheduled", sum(|one| one.stats.scheduled))),
        plain(Figure::count("Due", due)),
        plain(Figure::text("Oldest due", maybe_span(oldest))),
        plain(Figure::count("Running", sum(|one| one.stats.running))),
        total(
            Figure::count("Dead", dead).to(visit.at("/dead")),
            if dead > 0 { "bad" } else { "" },
        ),
        plain(Figure::text("Done", done)),
        plain(instances.to(visit.at("/instances"))),
    ]
}

fn row(visit: &Visit, seen: &TypeOverview) -> OverviewRow {
    let (name, stats) = (seen.task_type.as_str(), &seen.stats);
    let counts = done_by_minute(&seen.minutes, stats.now);
    let done: u64 = counts.iter().sum();
    let most = counts.iter().max().copied().unwrap_or_default();
    let tags = troubles(seen);
    OverviewRow {
        href: visit.href(&Link::to("/type").with("name", name)),
        class: tags.first().map_or("", |worst| worst.class),
        tags,
        spark: spark(&counts),
        spark_said: format!(
            "last hour: {} done, at most {} in a minute",
            count(done),
            count(most)
        ),
        figures: figures(visit, seen),
        name: name.to_owned(),
    }
}

/// The numbers of a type, in the order of their columns; each leads to the tasks that it counts.
fn figures(visit: &Visit, seen: &TypeOverview) -> Vec<Figure> {
    let (name, stats) = (seen.task_type.as_str(), &seen.stats);
    let list = |state: TaskState| {
        let link = Link::to("/tasks").with("type", name);
        visit.href(&link.with("state", state.as_str()))
    };
    let of = |label, number, state| Figure::count(label, number).to(list(state));
    let oldest = Some(stats.oldest_age()).filter(|age| !age.is_zero());
    let serving = match seen.serving {
        0 => "none".to_owned(),
        some => count(some as u64),
    };
    vec![
        Figure::text("Rate", seen.rate().map_or_else(|| DASH.to_owned(), rate)).extra(),
        Figure::text("p50", late(lateness(seen), 0.5)).extra(),
        Figure::text("p99", late(lateness(seen), 0.99)),
        of("Scheduled", stats.scheduled, TaskState::Scheduled),
        of("Due", stats.due, TaskState::Scheduled),
        Figure::text("Oldest due", maybe_span(oldest)),
        of("Running", stats.running, TaskState::Running),
        of("Dead", stats.dead, TaskState::Dead),
        Figure::text("Instances", serving).extra(),
    ]
}

/// The number of tasks done in each of the last 60 complete minutes.
fn done_by_minute(minutes: &[Spell], now: Timestamp) -> [u64; 60] {
    let present = Step::Minute.begin(now);
    let mut counts = [0; 60];
    for minute in minutes {
        let ago = usize::try_from(present.since(minute.at).as_secs() / 60).ok();
        let place = ago
            .filter(|ago| *ago > 0)
            .and_then(|ago| 60_usize.checked_sub(ago));
        if let Some(counted) = place.and_then(|place| counts.get_mut(place)) {
            *counted += minute.figures.done;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use delayq_plugin::minutes;
    use delayq_plugin::store::Figures;

    use super::*;

    #[test]
    fn a_sparkline_has_the_sixty_minutes_that_are_over() {
        let now = Timestamp::from_millis(1_767_268_830_000);
        let spell = |ago| {
            let mut figures = Figures::default();
            figures.done = ago + 1;
            let at = Step::Minute.begin(now).minus(minutes(ago));
            Spell { at, figures }
        };
        let counts = done_by_minute(&[61, 60, 1, 0].map(spell), now);
        assert_eq!(
            (counts[0], counts[59], counts.iter().sum::<u64>()),
            (61, 2, 63)
        );
    }
}
