//! The overview of all types and their problems.

use std::sync::Arc;

use askama::Template;
use delayq_ops::{MAX_OVERVIEW_TYPES, Overview, TypeOverview, overview_of_all};
use delayq_plugin::store::{Spell, Step};
use delayq_plugin::{Result, Timestamp};

use super::Page;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::said::{DASH, count, counted, maybe_span, rate, span};
use crate::shell::{Nav, OVERVIEW};
use crate::svg::spark;
use crate::tag::{Tag, troubles};
use crate::visit::Visit;

/// The number of types on a page.
const PAGE: usize = 50;

/// The overview page.
#[derive(Clone, Debug)]
pub(crate) struct OverviewPage {
    /// Only types whose name contains this text.
    q: String,
    /// Only types with problems.
    is_trouble: bool,
    /// The number of the page, from 1.
    number: usize,
}

/// A total at the top of the page.
struct Total {
    name: &'static str,
    value: String,
    class: &'static str,
}

/// One type.
struct OverviewRow {
    name: String,
    href: String,
    dead_href: String,
    tags: Vec<Tag>,
    spark: String,
    spark_said: String,
    rate: String,
    p50: String,
    p99: String,
    scheduled: String,
    due: String,
    oldest: String,
    running: String,
    dead: String,
    serving: String,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewBody<'a> {
    page: &'a OverviewPage,
    action: String,
    totals: Vec<Total>,
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
}

impl Page for OverviewPage {
    type Data = Overview;
    const NAV: Nav = Nav::Overview;

    fn of(visit: &Visit) -> Self {
        Self {
            q: visit.fields.get("q").to_owned(),
            is_trouble: visit.fields.get("only") == "trouble",
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
        let named: Vec<_> = named.collect();
        let pages = named.len().div_ceil(PAGE).max(1);
        let number = self.number.min(pages);
        let rows = named.iter().skip((number - 1) * PAGE).take(PAGE);
        let turn = |number: usize| visit.href(&self.link(number, self.is_trouble));
        OverviewBody {
            page: self,
            action: visit.href(&Link::to("/")),
            totals: totals(data),
            rows: rows.map(|one| row(visit, one)).collect(),
            trouble_count: data.types.iter().filter(|one| is_trouble(one)).count(),
            found: named.len(),
            all_href: visit.href(&self.link(1, false)),
            trouble_href: visit.href(&self.link(1, true)),
            previous: (number > 1).then(|| turn(number - 1)),
            next: (number < pages).then(|| turn(number + 1)),
            pages,
            left_out: data.type_count.saturating_sub(MAX_OVERVIEW_TYPES),
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
            .with("page", number)
    }
}

fn is_trouble(seen: &TypeOverview) -> bool {
    !seen.troubles.is_empty()
}

fn totals(data: &Overview) -> Vec<Total> {
    let sum = |of: fn(&TypeOverview) -> u64| data.types.iter().map(of).sum::<u64>();
    let total = |name, value: String, class| Total { name, value, class };
    let loud = |number: u64, class: &'static str| if number > 0 { class } else { "" };
    let oldest = data.types.iter().map(|one| one.stats.oldest_age()).max();
    let oldest = oldest.filter(|age| !age.is_zero());
    let is_known = data.types.iter().any(|one| one.recent.is_some());
    let done: f64 = data.types.iter().filter_map(TypeOverview::rate).sum();
    let (due, dead) = (sum(|one| one.stats.due), sum(|one| one.stats.dead));
    vec![
        total("types", count(data.type_count as u64), ""),
        total("scheduled", count(sum(|one| one.stats.scheduled)), ""),
        total("due", count(due), ""),
        total("oldest due", maybe_span(oldest), ""),
        total("running", count(sum(|one| one.stats.running)), ""),
        total("dead", count(dead), loud(dead, "bad")),
        total(
            "done",
            if is_known {
                rate(done)
            } else {
                DASH.to_owned()
            },
            "",
        ),
        total("instances", count(data.instances.len() as u64), ""),
    ]
}

fn row(visit: &Visit, seen: &TypeOverview) -> OverviewRow {
    let (name, stats) = (seen.task_type.as_str(), &seen.stats);
    let counts = done_by_minute(&seen.minutes, stats.now);
    let lateness = seen.recent.as_ref().map(|recent| &recent.lateness);
    let quantile = |q| maybe_span(lateness.and_then(|lateness| lateness.quantile(q)));
    let done: u64 = counts.iter().sum();
    let most = counts.iter().max().copied().unwrap_or_default();
    let oldest = stats.oldest_age();
    let tasks = Link::to("/tasks").with("type", name).with("state", "dead");
    OverviewRow {
        href: visit.href(&Link::to("/type").with("name", name)),
        dead_href: visit.href(&tasks),
        tags: troubles(seen),
        spark: spark(&counts),
        spark_said: format!(
            "last hour: {} done, at most {} in a minute",
            count(done),
            count(most)
        ),
        rate: seen.rate().map_or_else(|| DASH.to_owned(), rate),
        p50: quantile(0.5),
        p99: quantile(0.99),
        scheduled: count(stats.scheduled),
        due: count(stats.due),
        oldest: if oldest.is_zero() {
            DASH.to_owned()
        } else {
            span(oldest)
        },
        running: count(stats.running),
        dead: count(stats.dead),
        serving: match seen.serving {
            0 => "nobody".to_owned(),
            some => counted(some as u64, "instance"),
        },
        name: name.to_owned(),
    }
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
