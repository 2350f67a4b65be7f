//! The running instances.

use std::cmp::Ordering;
use std::sync::Arc;

use askama::Template;
use delayq_ops::{Overview, overview_of_all};
use delayq_plugin::store::Figures;
use delayq_plugin::{InstanceInfo, Result, TaskType, Timestamp};

use super::Page;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::moment::Moment;
use crate::said::{DASH, count, counted, late, one_line};
use crate::shell::{Nav, OVERVIEW};
use crate::sort::{Column, Head, Sort};
use crate::visit::Visit;

const COLUMNS: [Column; 10] = [
    Column::text("id", "Instance"),
    Column::text("host", "Host"),
    Column::number("pid", "Process"),
    Column::text("version", "Version"),
    Column::text("started", "Started"),
    Column::text("seen", "Seen"),
    Column::number("done", "Done"),
    Column::number("failed", "Failed"),
    Column::number("p99", "Late p99"),
    Column::number("types", "Types").left(),
];

/// The list of instances.
#[derive(Clone, Debug)]
pub(crate) struct InstancesPage {
    /// The order of the instances; by their starts, unless one is chosen.
    sort: Sort,
}

/// A type that an instance serves.
struct Served {
    name: String,
    href: String,
}

/// An instance.
struct InstanceRow {
    id: String,
    full_id: String,
    host: String,
    pid: u32,
    version: String,
    started: Moment,
    seen: Moment,
    types: Vec<Served>,
    more: usize,
    since: Option<Moment>,
    done: String,
    failed: String,
    p99: String,
}

#[derive(Template)]
#[template(path = "instances.html")]
struct InstancesBody {
    heads: Vec<Head>,
    rows: Vec<InstanceRow>,
    said: String,
    has_versions: bool,
}

impl Page for InstancesPage {
    type Data = Overview;
    const NAV: Nav = Nav::Instances;

    fn of(visit: &Visit) -> Self {
        Self {
            sort: Sort::read(&visit.fields, &COLUMNS),
        }
    }

    fn title(&self) -> String {
        "Instances".to_owned()
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
        let instances = &data.instances;
        let first = instances.first().map(|one| one.version.as_str());
        let is_other = |one: &InstanceInfo| Some(one.version.as_str()) != first;
        let mut sorted: Vec<_> = instances.iter().collect();
        sorted.sort_by(|a, b| self.order(a, b));
        InstancesBody {
            heads: self.sort.heads(visit, &COLUMNS, || Link::to("/instances")),
            rows: sorted
                .into_iter()
                .map(|one| row(visit, one, data.now))
                .collect(),
            said: counted(instances.len() as u64, "instance"),
            has_versions: instances.iter().any(is_other),
        }
        .render()
    }
}

impl InstancesPage {
    fn order(&self, a: &InstanceInfo, b: &InstanceInfo) -> Ordering {
        let p99 = |one: &InstanceInfo| sum_of(one).lateness.quantile(0.99);
        let order = match self.sort.key {
            "host" => a.host.cmp(&b.host),
            "pid" => a.pid.cmp(&b.pid),
            "version" => a.version.cmp(&b.version),
            "seen" => a.seen_at.cmp(&b.seen_at),
            "done" => sum_of(a).done.cmp(&sum_of(b).done),
            "failed" => sum_of(a).failed.cmp(&sum_of(b).failed),
            "p99" => p99(a).cmp(&p99(b)),
            "types" => a.type_count.cmp(&b.type_count),
            "id" => a.id.short().cmp(b.id.short()),
            _ => a.started_at.cmp(&b.started_at),
        };
        self.sort.directed(order)
    }
}

/// What an instance did in the last minutes, over all types.
fn sum_of(one: &InstanceInfo) -> Figures {
    let mut sum = Figures::default();
    let works = one.recent.iter().flat_map(|recent| &recent.types);
    works.for_each(|work| sum += &work.figures);
    sum
}

fn row(visit: &Visit, one: &InstanceInfo, now: Timestamp) -> InstanceRow {
    let sum = sum_of(one);
    let number = |of: u64| match one.recent {
        Some(_) => count(of),
        None => DASH.to_owned(),
    };
    let served = |name: &TaskType| Served {
        name: name.to_string(),
        href: visit.href(&Link::to("/type").with("name", name)),
    };
    InstanceRow {
        id: one_line(one.id.short(), 40),
        full_id: one_line(one.id.as_str(), 40),
        host: one_line(&one.host, 100),
        pid: one.pid,
        version: one_line(&one.version, 40),
        started: Moment::seen_from(now, one.started_at),
        seen: Moment::seen_from(now, one.seen_at),
        types: one.types.iter().map(served).collect(),
        more: one.type_count.saturating_sub(one.types.len()),
        since: one
            .recent
            .as_ref()
            .map(|recent| Moment::seen_from(now, recent.since)),
        done: number(sum.done),
        failed: number(sum.failed),
        p99: late(Some(&sum.lateness), 0.99),
    }
}
