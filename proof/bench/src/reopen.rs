//! A file that is opened after the process that filled it was killed.

use std::time::Instant;

use delayq_plugin::TaskSubmitService;
use tokio::task::JoinSet;

use crate::Failure;
use crate::child::{Child, Role, told_to_end};
use crate::load::{self, BULK, TASK_TYPE, parts};
use crate::stage::{Site, Stage};
use crate::throughput::all_accepted;

/// Calls of the process that is killed which are under way at any time.
const CALLS: usize = 8;

/// Tasks that each of them has sent when it says so.
const MORE: u32 = 25;

/// The process that is killed. It says `full` when `count` tasks are accepted, and `more` when it
/// has sent some more, which it goes on with.
pub(crate) async fn fill(site: Site, count: usize) -> Result<(), Failure> {
    let tasks = site.sender().await?;
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(load::later).collect::<Result<_, _>>()?;
        all_accepted(tasks.send_all(jobs).await)?;
    }
    let mut callers = JoinSet::new();
    println!("full");
    for _ in 0..CALLS {
        callers.spawn(send_on(tasks.clone()));
    }
    told_to_end().await
}

async fn send_on(tasks: TaskSubmitService) -> Result<(), Failure> {
    for sent in 1_u32.. {
        tasks.send(load::later(0)?).await?;
        if sent == MORE {
            println!("more");
        }
    }
    Ok(())
}

/// Milliseconds from opening the file of a killed process to the first answer, once a round: in all
/// rounds the same file, with at least `count` tasks.
pub(crate) async fn measure(
    stage: &Stage,
    count: usize,
    rounds: usize,
) -> Result<Vec<f64>, Failure> {
    let site = stage.site().await?;
    let mut samples = Vec::new();
    for round in 0..rounds {
        let mut child = Child::start(&Role::Filler {
            site: site.clone(),
            count: if round == 0 { count } else { 0 },
        })?;
        child.expect("full").await?;
        child.expect("more").await?;
        child.kill().await?;
        let started = Instant::now();
        let tasks = site.clone().sender().await?;
        let stats = tasks.stats(TASK_TYPE).await?;
        let took = started.elapsed();
        if stats.scheduled < u64::try_from(count)? {
            return Err(format!("{} of {count} tasks after a kill", stats.scheduled).into());
        }
        println!(
            "    killed with {} tasks: answers after {took:?}",
            stats.scheduled
        );
        samples.push(took.as_secs_f64() * 1e3);
        tasks.close().await;
    }
    Ok(samples)
}
