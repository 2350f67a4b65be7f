//! The running instances.

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
use crate::said::{DASH, count, counted, maybe_span, one_line};
use crate::shell::{Nav, OVERVIEW};
use crate::visit::Visit;

/// The list of instances.
#[derive(Clone, Debug)]
pub(crate) struct InstancesPage;

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
    rows: Vec<InstanceRow>,
    said: String,
    has_versions: bool,
}

impl Page for InstancesPage {
    type Data = Overview;
    const NAV: Nav = Nav::Instances;

    fn of(_visit: &Visit) -> Self {
        Self
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
        InstancesBody {
            rows: instances
                .iter()
                .map(|one| row(visit, one, data.now))
                .collect(),
            said: counted(instances.len() as u64, "instance"),
            has_versions: instances.iter().any(is_other),
        }
        .render()
    }
}

fn row(visit: &Visit, one: &InstanceInfo, now: Timestamp) -> InstanceRow {
    let mut sum = Figures::default();
    let works = one.recent.iter().flat_map(|recent| &recent.types);
    works.for_each(|work| sum += &work.figures);
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
        p99: maybe_span(sum.lateness.quantile(0.99)),
    }
}
