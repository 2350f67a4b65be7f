//! What tasks cost a PostgreSQL server, beside a bare table: its processor time in a drain, its
//! log, its transactions, its disk.

use std::sync::Arc;

use delayq_core::store::{AttemptEnd, Bucket, ClaimRequest, SettleOutcome, Settlement};
use delayq_plugin::{
    Clock, DelayQueueJob, Store, SystemClock, TaskSubmitService, TaskType, seconds,
};
use tokio::task::JoinSet;

use crate::Failure;
use crate::backlog::all_settled;
use crate::bare_postgres::{BarePostgres, LOOPS, connect};
use crate::bare_redis::{all_run, bytes_each, cpu_us_each};
use crate::figure::{Figure, Goal};
use crate::load::{BULK, Message, STEP, Size, TASK_TYPE, parts};
use crate::meter::{Sizes, sizes};
use crate::stage::{Place, Stage};
use crate::throughput::{all_accepted, send_singly};

/// Microseconds of all processes of the server for each task that two loops claim and settle.
pub(crate) async fn drain_cpu(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let store = stage.site().await?.store().await?;
    let tasks = TaskSubmitService::new(Arc::clone(&store));
    send_due(&tasks, count).await?;
    let meter = stage.meter()?;
    let before = meter.cpu_time()?;
    all_run(run_all(&store).await?, count)?;
    let cpu = cpu_us_each(before, meter.cpu_time()?, count);
    all_settled(&tasks, TASK_TYPE).await?;
    tasks.close().await;
    Ok(cpu)
}

/// The same for a bare table.
pub(crate) async fn bare_drain_cpu(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let bare = stage.bare_postgres().await?;
    bare.submit_all(count, 0).await?;
    let meter = stage.meter()?;
    let before = meter.cpu_time()?;
    all_run(bare.take_all().await?, count)?;
    Ok(cpu_us_each(before, meter.cpu_time()?, count))
}

/// Sends tasks in bulk that are due at once.
pub(crate) async fn send_due(tasks: &TaskSubmitService, count: usize) -> Result<(), Failure> {
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(|number| DelayQueueJob::new(TASK_TYPE, &Message::new(number)));
        all_accepted(tasks.send_all(jobs.collect::<Result<_, _>>()?).await)?;
    }
    Ok(())
}

/// Claims and settles in two loops until nothing is due; returns how many tasks were settled.
async fn run_all(store: &Arc<dyn Store>) -> Result<usize, Failure> {
    let mut loops = JoinSet::new();
    for _ in 0..LOOPS {
        let store = Arc::clone(store);
        loops.spawn(async move {
            let (mut settled, mut last) = (0, 1);
            while last > 0 {
                last = run_batch(store.as_ref()).await?;
                settled += last;
            }
            Ok::<_, Failure>(settled)
        });
    }
    let mut settled = 0;
    while let Some(ended) = loops.join_next().await {
        settled += ended??;
    }
    Ok(settled)
}

/// One claim, and the settlement of what it took; returns how many tasks that were.
pub(crate) async fn run_batch(store: &dyn Store) -> Result<usize, Failure> {
    let bucket = Bucket::whole(TaskType::new(TASK_TYPE)?);
    let request = ClaimRequest::new(STEP, seconds(30), SystemClock.now());
    let claimed = store.claim(&bucket, &request).await?.tasks;
    let settlements: Vec<_> = claimed
        .into_iter()
        .map(|task| Settlement::new(task.lock, AttemptEnd::Done))
        .collect();
    let count = settlements.len();
    if count == 0 {
        return Ok(0);
    }
    let outcomes = store.settle(&bucket, settlements).await?;
    let settled = |outcome: &&SettleOutcome| **outcome == SettleOutcome::Settled;
    all_run(outcomes.iter().filter(settled).count(), count)?;
    Ok(count)
}

/// What a task costs, each by itself.
#[derive(Debug)]
struct Costs {
    submit_wal: f64,
    submit_commits: f64,
    single_commits: f64,
    drain_wal: f64,
    drain_commits: f64,
    heap: f64,
    indexes: f64,
}

/// One of the costs, in the unit of its figure.
type Part = fn(&Costs) -> f64;

/// The figures of the costs: name, unit, value.
const PARTS: [(&str, &str, Part); 7] = [
    ("log, submitted in bulk", "bytes/task", |it| it.submit_wal),
    ("log, claimed and settled", "bytes/task", |it| it.drain_wal),
    ("commits, submitted in bulk", PER_1000, |it| {
        it.submit_commits * 1e3
    }),
    ("commits, submitted singly", PER_1000, |it| {
        it.single_commits * 1e3
    }),
    ("commits, claimed and settled", PER_1000, |it| {
        it.drain_commits * 1e3
    }),
    ("heap, waiting", "bytes/task", |it| it.heap),
    ("indexes, waiting", "bytes/task", |it| it.indexes),
];
const PER_1000: &str = "commits/1,000 tasks";

/// What the server has counted at a moment without connections.
#[derive(Debug)]
struct Counted {
    wal: u64,
    commits: u64,
}

async fn look(stage: &Stage) -> Result<Counted, Failure> {
    let meter = stage.meter()?;
    let commits = meter.commits(&stage.database()).await?;
    let wal = meter.wal().await?;
    Ok(Counted { wal, commits })
}

/// The counts before and after each part of a round.
#[derive(Debug)]
struct Looks {
    /// Transactions of a connection that does nothing more.
    opened: u64,
    empty: Counted,
    full: Counted,
    drained: Counted,
    singly: Counted,
    /// Of the table when all wait.
    table: Sizes,
}

impl Costs {
    fn of(looks: &Looks, size: &Size) -> Self {
        let count = size.drain;
        let wal = |before: &Counted, after: &Counted| bytes_each(after.wal, before.wal, count);
        let commits = |before: &Counted, after: &Counted, count| {
            bytes_each(after.commits - looks.opened, before.commits, count)
        };
        Self {
            submit_wal: wal(&looks.empty, &looks.full),
            submit_commits: commits(&looks.empty, &looks.full, count),
            single_commits: commits(&looks.drained, &looks.singly, size.single),
            drain_wal: wal(&looks.full, &looks.drained),
            drain_commits: commits(&looks.full, &looks.drained, count),
            heap: bytes_each(looks.table.heap, 0, count),
            indexes: bytes_each(looks.table.indexes, 0, count),
        }
    }
}

/// The log, the transactions and the disk of a task, beside those of a bare one.
pub(crate) async fn costs(stage: &Stage, size: &Size) -> Result<Vec<Figure>, Failure> {
    let bare = Costs::of(&looks_at_bare(stage, size).await?, size);
    let own = Costs::of(&looks_at_delayq(stage, size).await?, size);
    let figure = |(name, unit, of): (_, _, Part)| Figure {
        bare: vec![of(&bare)],
        ..Figure::of_one(Place::Postgres, name, unit, Goal::None, of(&own))
    };
    Ok(PARTS.into_iter().map(figure).collect())
}

async fn looks_at_delayq(stage: &Stage, size: &Size) -> Result<Looks, Failure> {
    let place = stage.site().await?;
    let open = async || Ok::<_, Failure>(place.clone().sender().await?);
    // The first one makes the schema.
    open().await?.close().await;
    let made = look(stage).await?;
    open().await?.close().await;
    let empty = look(stage).await?;

    let tasks = open().await?;
    send_due(&tasks, size.drain).await?;
    let table = sizes(&connect(place.url()).await?, "delayq.tasks").await?;
    tasks.close().await;
    let full = look(stage).await?;

    let store = place.clone().store().await?;
    all_run(run_all(&store).await?, size.drain)?;
    store.close().await;
    let drained = look(stage).await?;

    let tasks = open().await?;
    send_singly(&tasks, size.single).await?;
    tasks.close().await;
    Ok(Looks {
        opened: empty.commits - made.commits,
        empty,
        full,
        drained,
        singly: look(stage).await?,
        table,
    })
}

async fn looks_at_bare(stage: &Stage, size: &Size) -> Result<Looks, Failure> {
    let url = stage.new_database().await?;
    let open = async || BarePostgres::of(url.clone()).await;
    drop(BarePostgres::make(url.clone()).await?);
    let empty = look(stage).await?;

    open().await?.submit_all(size.drain, 0).await?;
    let table = sizes(&connect(&url).await?, "bare").await?;
    let full = look(stage).await?;

    all_run(open().await?.take_all().await?, size.drain)?;
    let drained = look(stage).await?;

    open().await?.submit_singly(size.single).await?;
    Ok(Looks {
        opened: 0,
        empty,
        full,
        drained,
        singly: look(stage).await?,
        table,
    })
}
