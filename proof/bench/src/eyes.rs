//! What looking costs: the web page and the operations of the command line on a store with very
//! many tasks, and what open pages take from a drain. `cargo xtask bench --eyes`.

use delayq_plugin::TaskSubmitService;

mod asked;
mod call_times;
mod drain;
mod fill;
mod slow_log;
mod view;
mod web;

use crate::Failure;
use crate::document;
use crate::machine::Machine;
use crate::stage::{Place, Stage};
use asked::Asked;
use call_times::CallTimes;
use slow_log::SlowLog;
use view::View;
use web::Server;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Tasks that wait, over ten types.
    waiting: usize,
    /// Dead ones beside them.
    dead: usize,
    /// Tasks of one round of the drain.
    drained: usize,
    /// Rounds of the drain with pages open, and as many without.
    rounds: usize,
    /// How often each view is asked for by the first who looks, and as often by the next one.
    asks: usize,
}

impl Extent {
    pub(crate) const FULL: Self = Self {
        waiting: 1_000_000,
        dead: 20_000,
        drained: 150_000,
        rounds: 7,
        asks: 5,
    };

    /// Large enough to see that all works; the figures vary a lot.
    pub(crate) const QUICK: Self = Self {
        waiting: 50_000,
        dead: 2_000,
        drained: 20_000,
        rounds: 2,
        asks: 2,
    };
}

/// Measures these stores, shows the tables, and writes them to the document if so asked.
pub(crate) async fn run(
    places: Vec<Place>,
    extent: &Extent,
    is_documented: bool,
) -> Result<(), Failure> {
    let machine = Machine::look()?;
    println!("{machine}");
    let times = CallTimes::install()?;
    let mut section = format!("`cargo xtask bench --eyes` on {machine}.\n");
    for place in places.into_iter().filter(|place| *place != Place::Memory) {
        let tables = measure(place, extent, &times).await?;
        println!("\n{tables}");
        section += &tables;
    }
    if is_documented {
        document::write_eyes(&section)?;
    }
    Ok(())
}

/// The tables of one store.
async fn measure(place: Place, extent: &Extent, times: &CallTimes) -> Result<String, Failure> {
    let stage = Stage::set(place).await?;
    println!("\n{}", stage.version);
    let site = stage.site().await?;
    let tasks = site.clone().sender().await?;
    fill::fill(&tasks, extent).await?;
    let cost = drain::measure(&stage, &site, extent, times).await?;
    let slow_log = match place {
        Place::Redis => Some(SlowLog::begin(&stage.redis_url()?).await?),
        _ => None,
    };
    let views = views(&tasks.clone().with_metrics(), extent, times, slow_log).await?;
    tasks.close().await;
    let mut lines = vec![format!("\n{}\n", stage.version)];
    lines.extend(View::HEAD.map(str::to_owned));
    lines.extend(views.iter().map(View::line));
    let slow = views.iter().flat_map(View::slow_entries);
    lines.extend(slow.map(|entry| format!("\n- {entry}")));
    lines.push(format!("\n{cost}\n"));
    Ok(lines.join("\n"))
}

async fn views(
    tasks: &TaskSubmitService,
    extent: &Extent,
    times: &CallTimes,
    mut slow_log: Option<SlowLog>,
) -> Result<Vec<View>, Failure> {
    let mut views: Vec<_> = Asked::all().into_iter().map(View::of).collect();
    for _ in 0..extent.asks {
        // Nobody has looked at this one.
        let server = Server::start(tasks.clone()).await?;
        for view in &mut views {
            view.look(tasks, &server).await?;
            times.quiet().await;
            view.note_call(times.take_slowest());
            if let Some(slow_log) = &mut slow_log {
                view.note_entries(slow_log.take().await?);
            }
        }
    }
    Ok(views)
}
