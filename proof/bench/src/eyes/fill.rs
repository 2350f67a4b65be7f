//! A store with very many tasks.

use std::time::{Duration, Instant};

use delayq_core::store::{AttemptEnd, Bucket, ClaimRequest, MAX_BATCH, Settlement};
use delayq_plugin::store::{Figures, INSTANCE_EXPIRY, Spell};
use delayq_plugin::{
    Clock, DelayQueueJob, Error, InstanceId, InstanceInfo, SystemClock, TaskSubmitService,
    TaskType, hours, millis, minutes, seconds,
};

use super::Extent;
use crate::Failure;
use crate::load::{BULK, Message, parts};
use crate::throughput::all_accepted;

/// Types that wait, beside the one that nobody serves.
const WAITING_TYPES: usize = 9;
/// Due over two months.
pub(crate) const FAR: &str = "bench.waiting.1";
/// All due within ten seconds, in ten days.
pub(crate) const HERD: &str = "bench.waiting.2";
/// Has dead tasks, too.
pub(crate) const DEAD: &str = "bench.waiting.0";
pub(crate) const UNSERVED: &str = "bench.unserved";
/// The type that is drained.
pub(crate) const DRAINED: &str = "bench.drained";
/// Due tasks of a type that nobody serves.
const UNSERVED_TASKS: usize = 1_000;
/// What killed the dead ones.
const ERRORS: [&str; 5] = [
    "connection refused by payments.internal:8443 (attempt 7 of 7)",
    "order 4711: no van within 30 s",
    "the template `welcome-3` is not there",
    "timeout after 30 s",
    "HTTP 502 from https://api.example.com/v2/customers/90125",
];
/// The second of them as a group says it.
pub(crate) const ERROR_GROUP: &str = "order #: no van within # s";
/// Instances that are announced, and the minutes of their figures.
const INSTANCES: usize = 20;
const MINUTES: u64 = 60;

pub(crate) fn far_id(number: usize) -> String {
    format!("waiting-{number}")
}

pub(crate) fn dead_id(number: usize) -> String {
    format!("dead-{number}")
}

pub(crate) fn unserved_id(number: usize) -> String {
    format!("unserved-{number}")
}

/// Sends and buries.
pub(crate) async fn fill(tasks: &TaskSubmitService, extent: &Extent) -> Result<(), Failure> {
    let started = Instant::now();
    // The dead ones first: nothing else is due then.
    let dead = |n| Ok(job(DEAD, n)?.id(dead_id(n)));
    send(tasks, extent.dead, dead).await?;
    bury(tasks, extent.dead).await?;
    let unserved = |n| Ok(job(UNSERVED, n)?.id(unserved_id(n)));
    send(tasks, UNSERVED_TASKS, unserved).await?;
    send(tasks, extent.waiting - UNSERVED_TASKS, waiting).await?;
    announce(tasks).await?;
    println!("  filled in {:.1?}", started.elapsed());
    Ok(())
}

fn job(task_type: &str, number: usize) -> Result<DelayQueueJob, Error> {
    DelayQueueJob::new(task_type, &Message::new(number))
}

fn waiting(number: usize) -> Result<DelayQueueJob, Error> {
    let task_type = format!("bench.waiting.{}", number % WAITING_TYPES);
    let wait = match number % WAITING_TYPES {
        2 => hours(240) + millis(fastrand::u64(..10_000)),
        // One in ten within the next hours, but not while this runs.
        _ if number.is_multiple_of(10) => minutes(fastrand::u64(60..300)),
        _ => seconds(fastrand::u64(18_000..60 * 86_400)),
    };
    // The first one of a type has a name that is known.
    let id = far_id(number / WAITING_TYPES);
    Ok(job(&task_type, number)?.id(id).after(wait))
}

async fn send(
    tasks: &TaskSubmitService,
    count: usize,
    job: impl Fn(usize) -> Result<DelayQueueJob, Error>,
) -> Result<(), Failure> {
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(&job).collect::<Result<Vec<_>, _>>()?;
        all_accepted(tasks.send_all(jobs).await)?;
    }
    Ok(())
}

/// Has them all die, with one error after the other.
async fn bury(tasks: &TaskSubmitService, count: usize) -> Result<(), Failure> {
    let bucket = Bucket::whole(TaskType::new(DEAD)?);
    let store = tasks.store();
    let mut errors = ERRORS.into_iter().cycle();
    let mut buried = 0;
    while buried < count {
        let request = ClaimRequest::new(MAX_BATCH, seconds(30), SystemClock.now());
        let claimed = store.claim(&bucket, &request).await?;
        let ends = claimed.tasks.into_iter().zip(errors.by_ref());
        let ends = ends.map(|(task, error)| {
            let (error, succeeded) = (error.to_owned(), Vec::new());
            Settlement::new(task.lock, AttemptEnd::Dead { error, succeeded })
        });
        let ends: Vec<_> = ends.collect();
        buried += ends.len();
        store.settle(&bucket, ends).await?;
    }
    Ok(())
}

/// Instances, and what they say of the last hour.
async fn announce(tasks: &TaskSubmitService) -> Result<(), Failure> {
    let now = tasks.clock().now();
    let types = (0..WAITING_TYPES).map(|nth| TaskType::new(format!("bench.waiting.{nth}")));
    let types = types.collect::<Result<Vec<_>, _>>()?;
    for nth in 0..INSTANCES {
        let instance = InstanceInfo::new(InstanceId::generate(), format!("host-{nth}"), 17, now);
        let instance = instance.serving(&types);
        tasks
            .store()
            .announce(&instance, INSTANCE_EXPIRY * 60)
            .await?;
    }
    let minute = |ago: u64| {
        let mut figures = Figures::default();
        (figures.started, figures.done) = (60 + ago, 60);
        let at = now.minus(Duration::from_secs(60 * ago));
        Spell { at, figures }
    };
    let hour: Vec<_> = (0..MINUTES).rev().map(minute).collect();
    for task_type in &types {
        tasks.store().add_figures(task_type, &hour).await?;
    }
    Ok(())
}
