//! The pools of the running instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use delayq_ops::{Overview, overview_of_all};
use delayq_plugin::store::PoolUse;
use delayq_plugin::{InstanceInfo, Result};

use super::Page;
use crate::app::App;
use crate::cache::Cache;
use crate::moment::Moment;
use crate::said::{count, counted, one_line};
use crate::shell::{Nav, OVERVIEW};
use crate::visit::Visit;

/// The list of pools.
#[derive(Clone, Debug)]
pub(crate) struct PoolsPage;

/// The slots of a pool in one instance.
struct Share {
    instance: String,
    host: String,
    slots: u64,
    used: u64,
    said: String,
    types: u64,
    seen: Moment,
}

/// A pool of an instance.
struct Member<'a> {
    instance: &'a InstanceInfo,
    pool: &'a PoolUse,
}

/// A pool, over all instances that have one of this name.
struct PoolRow {
    name: String,
    slots: u64,
    used: u64,
    said: String,
    is_full: bool,
    instances: String,
    shares: Vec<Share>,
}

#[derive(Template)]
#[template(path = "pools.html")]
struct PoolsBody {
    rows: Vec<PoolRow>,
}

impl Page for PoolsPage {
    type Data = Overview;
    const NAV: Nav = Nav::Pools;

    fn of(_visit: &Visit) -> Self {
        Self
    }

    fn title(&self) -> String {
        "Pools".to_owned()
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

    fn body(&self, _visit: &Visit, data: &Overview) -> askama::Result<String> {
        let mut pools: BTreeMap<&str, Vec<Member<'_>>> = BTreeMap::new();
        for instance in &data.instances {
            for pool in &instance.pools {
                let member = Member { instance, pool };
                pools.entry(&pool.name).or_default().push(member);
            }
        }
        let rows = pools
            .into_iter()
            .map(|(name, members)| row(data, name, &members));
        let rows = rows.collect();
        PoolsBody { rows }.render()
    }
}

fn row(data: &Overview, name: &str, members: &[Member<'_>]) -> PoolRow {
    let slots = members.iter().map(|one| one.pool.slots).sum();
    let used = members.iter().map(|one| one.pool.used).sum();
    let share = |Member { instance, pool }: &Member<'_>| Share {
        instance: instance.id.short().to_owned(),
        host: format!(
            "{}, process {}",
            one_line(&instance.host, 100),
            instance.pid
        ),
        slots: pool.slots.max(1),
        used: pool.used,
        said: in_use(pool.used, pool.slots),
        types: pool.types,
        seen: Moment::seen_from(data.now, instance.seen_at),
    };
    PoolRow {
        name: one_line(name, 100),
        slots: u64::max(slots, 1),
        used,
        said: in_use(used, slots),
        is_full: slots > 0 && used >= slots,
        instances: counted(members.len() as u64, "instance"),
        shares: members.iter().map(share).collect(),
    }
}

fn in_use(used: u64, slots: u64) -> String {
    format!("{} of {} slots in use", count(used), count(slots))
}
