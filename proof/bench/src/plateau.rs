//! A table that does not grow: many tasks pass through a small set of waiting ones, and what dead
//! rows leave is used again. `cargo xtask bench --plateau`.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use delayq_core::store::StoreOptions;
use delayq_plugin::{DelayQueueJob, Store, TaskSubmitService, open_store, seconds};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use crate::Failure;
use crate::bare_postgres::{LOOPS, connect};
use crate::bare_redis::rate;
use crate::load::{BULK, Message, TASK_TYPE};
use crate::meter::{Sizes, sizes};
use crate::postgres::run_batch;
use crate::stage::{Place, Stage};
use crate::throughput::all_accepted;

/// Tasks of a short run.
pub(crate) const QUICK: usize = 300_000;
/// Tasks that wait at a time: one in a hundred, but so many.
const WAITING: RangeInclusive<usize> = 20_000..=100_000;
/// How long ended tasks are remembered: without this they would be most of the table.
const RETENTION: Duration = seconds(2);
/// What the table may take of the size of a new one with the same rows.
const MOST: u64 = 2;
/// What any table may take: at full speed 40,000 rows die a second, and the store looks once a
/// second.
const FLOOR: u64 = 96 << 20;
/// How much the table may grow in the second half, in per cent.
const GROWTH: u64 = 10;
/// How often the senders look whether there is room.
const LOOK: Duration = Duration::from_millis(2);
/// How long nothing may happen.
const PATIENCE: Duration = Duration::from_mins(2);

const TABLE: &str = "delayq.tasks";
/// A new table with the same rows and indexes.
const COPY: &str = "CREATE TABLE delayq.plateau (LIKE delayq.tasks INCLUDING ALL); \
    INSERT INTO delayq.plateau SELECT * FROM delayq.tasks";
const FRESH: &str = "delayq.plateau";

/// The table after so many tasks.
#[derive(Clone, Copy, Debug)]
struct Mark {
    tasks: usize,
    table: Sizes,
}

/// Lets so many tasks pass, and fails when the table has grown.
pub(crate) async fn run(count: usize) -> Result<(), Failure> {
    let stage = Stage::set(Place::Postgres).await?;
    println!("{}", stage.version);
    let url = stage.new_database().await?;
    let options = StoreOptions {
        retention: RETENTION,
        ..StoreOptions::default()
    };
    let store = open_store(&url, options).await?;
    let client = connect(&url).await?;
    let started = Instant::now();
    let marks = churn(&store, &client, count).await?;
    println!("{count} tasks, {:.0} a second", rate(count, started));
    client.batch_execute(COPY).await?;
    let fresh = sizes(&client, FRESH).await?;
    store.close().await;
    judge(&marks, fresh)
}

/// Senders and claimers beside each other; returns what the table was like at each tenth.
async fn churn(
    store: &Arc<dyn Store>,
    client: &Client,
    count: usize,
) -> Result<Vec<Mark>, Failure> {
    let done = Arc::new(AtomicUsize::new(0));
    let mut work = JoinSet::new();
    let waiting = (count / 100).clamp(*WAITING.start(), *WAITING.end());
    work.spawn(send(Arc::clone(store), Arc::clone(&done), count, waiting));
    for _ in 0..LOOPS {
        let (store, done) = (Arc::clone(store), Arc::clone(&done));
        work.spawn(async move {
            while done.load(Ordering::Relaxed) < count {
                let settled = run_batch(store.as_ref()).await?;
                done.fetch_add(settled, Ordering::Relaxed);
                if settled == 0 {
                    sleep(LOOK).await;
                }
            }
            Ok(())
        });
    }
    let mut marks = Vec::new();
    for tenth in 1..=10 {
        reach(&mut work, &done, count / 10 * tenth).await?;
        let (tasks, table) = (done.load(Ordering::Relaxed), sizes(client, TABLE).await?);
        println!("{tasks} tasks: {} in heap and indexes", mebibytes(table));
        marks.push(Mark { tasks, table });
    }
    while let Some(ended) = timeout(PATIENCE, work.join_next()).await? {
        ended??;
    }
    Ok(marks)
}

/// Waits until so many tasks have passed. An error of the others ends it.
async fn reach(
    work: &mut JoinSet<Result<(), Failure>>,
    done: &AtomicUsize,
    goal: usize,
) -> Result<(), Failure> {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let now = done.load(Ordering::Relaxed);
        if now >= goal {
            return Ok(());
        }
        if now > last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return Err(format!("nothing happens after {now} tasks").into());
        }
        if let Some(ended) = work.try_join_next() {
            ended??;
        }
        sleep(LOOK).await;
    }
}

/// Keeps so many waiting, to the end.
async fn send(
    store: Arc<dyn Store>,
    done: Arc<AtomicUsize>,
    count: usize,
    waiting: usize,
) -> Result<(), Failure> {
    let tasks = TaskSubmitService::new(store);
    let (mut sent, all) = (0, count + waiting);
    while sent < all {
        if sent - done.load(Ordering::Relaxed).min(sent) >= waiting {
            sleep(LOOK).await;
            continue;
        }
        let bulk = sent..all.min(sent + BULK);
        sent = bulk.end;
        let jobs = bulk.map(|number| DelayQueueJob::new(TASK_TYPE, &Message::new(number)));
        all_accepted(tasks.send_all(jobs.collect::<Result<_, _>>()?).await)?;
    }
    Ok(())
}

/// Compares the end with a new table, and with the half.
fn judge(marks: &[Mark], fresh: Sizes) -> Result<(), Failure> {
    let (Some(half), Some(end)) = (marks.get(marks.len() / 2 - 1), marks.last()) else {
        return Err("nothing was measured".into());
    };
    let (half, end) = (*half, *end);
    println!(
        "a new table with the same rows: {}; at {} tasks {}, at {} {}",
        mebibytes(fresh),
        half.tasks,
        mebibytes(half.table),
        end.tasks,
        mebibytes(end.table),
    );
    let most = (fresh.total() * MOST).max(FLOOR);
    if end.table.total() > most {
        return Err(format!("the table takes more than {} MiB", most >> 20).into());
    }
    let growth = end.table.total() * 100 / half.table.total().max(1);
    if growth > 100 + GROWTH {
        let growth = growth - 100;
        return Err(format!("the table has grown by {growth} % in the second half").into());
    }
    Ok(())
}

fn mebibytes(table: Sizes) -> String {
    let [heap, indexes] = [table.heap, table.indexes].map(|bytes| bytes >> 20);
    format!("{heap} + {indexes} MiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn judged(half: u64, end: u64, fresh: u64) -> Result<(), Failure> {
        let table = |mib: u64| Sizes {
            heap: mib * MIB / 2,
            indexes: mib * MIB / 2,
        };
        let mark = |mib| Mark {
            tasks: 0,
            table: table(mib),
        };
        judge(&[mark(half), mark(end)], table(fresh))
    }

    #[test]
    fn a_table_that_grows_or_is_too_large_fails() {
        assert!(judged(180, 190, 100).is_ok());
        let large = judged(210, 210, 100).unwrap_err().to_string();
        assert!(large.contains("more than 200 MiB"), "{large}");
        let grown = judged(150, 190, 100).unwrap_err().to_string();
        assert!(grown.contains("grown by 26 %"), "{grown}");
        assert!(judged(90, 90, 1).is_ok(), "a small one has its floor");
    }
}
