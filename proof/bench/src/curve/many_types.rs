//! The same work spread over more and more types of one process.

use crate::Failure;
use crate::curve::Extent;
use crate::curve::instance_group::InstanceGroup;
use crate::curve::processor;
use crate::curve::sheet::{Line, Panel, Scale, Sheet, count};
use crate::figure::{short, spread};

const TYPES: [usize; 4] = [1, 10, 100, 1_000];
/// Scheduler threads that all types share.
const THREADS: usize = 2;

const HEAD: [&str; 7] = [
    "types",
    "drained, tasks/s",
    "against one type",
    "idle: % of a core, process",
    "Redis",
    "threads",
    "connections",
];

/// What the process takes when it has nothing to do.
#[derive(Clone, Copy, Debug, Default)]
struct Idle {
    /// In % of a core.
    process: f64,
    server: f64,
    threads: usize,
    connections: usize,
}

/// Measures one process with each number of types.
pub(crate) async fn measure(extent: &Extent) -> Result<Sheet, Failure> {
    let mut rates = TYPES.map(|_| Vec::new());
    let mut idle = TYPES.map(|_| Idle::default());
    for round in 0..extent.rounds {
        for ((types, rates), idle) in TYPES.into_iter().zip(&mut rates).zip(&mut idle) {
            let mut group = InstanceGroup::gather(1, types, Some(THREADS)).await?;
            rates.push(group.drain(extent.tasks).await?.rate);
            println!(
                "  {types} types: {:.0} tasks/s",
                rates.last().unwrap_or(&0.0)
            );
            if round == 0 {
                *idle = watch(&group, extent).await?;
            }
            group.end().await?;
        }
    }
    let rates = rates.map(|samples| spread(&samples)[1]);
    let one = rates[0];
    let rows = TYPES.iter().zip(rates).zip(idle);
    Ok(Sheet {
        head: &HEAD,
        rows: rows
            .map(|((types, rate), idle)| row(*types, [rate, rate / one], idle))
            .collect(),
        panels: panels(&rates, &idle),
    })
}

async fn watch(group: &InstanceGroup, extent: &Extent) -> Result<Idle, Failure> {
    let process = group.instances.first().ok_or("a process was started")?.pid;
    let server = group.server.pid().ok_or("the server runs")?;
    // What was run is settled, and buffers are freed.
    tokio::time::sleep(crate::bare_redis::SETTLED).await;
    let shares = processor::shares([process, server], extent.span).await?;
    let [process_share, server_share] = shares.map(|share| share * 100.0);
    Ok(Idle {
        process: process_share,
        server: server_share,
        threads: processor::threads(process)?,
        connections: group.connections().await?,
    })
}

fn row(types: usize, [rate, against]: [f64; 2], idle: Idle) -> Vec<String> {
    vec![
        count(types),
        short(rate),
        format!("{against:.2}"),
        format!("{:.2}", idle.process),
        format!("{:.2}", idle.server),
        idle.threads.to_string(),
        idle.connections.to_string(),
    ]
}

fn panels(rates: &[f64], idle: &[Idle]) -> Vec<Panel> {
    let panel = |title, unit, lines| Panel {
        title,
        unit,
        along: "types",
        places: TYPES.map(count).to_vec(),
        scale: Scale::Linear,
        lines,
    };
    let idle_of = |name, value: fn(&Idle) -> f64| Line::new(name, idle.iter().map(value));
    vec![
        panel(
            "Drained by one process",
            "tasks/s",
            vec![Line::new("redis", rates.iter().copied())],
        ),
        panel(
            "Idle",
            "% of a core",
            vec![
                idle_of("the process", |idle| idle.process),
                idle_of("Redis", |idle| idle.server),
            ],
        ),
    ]
}
