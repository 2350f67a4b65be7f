//! Processes that end without an orderly stop, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delayq_plugin::store::ANNOUNCE_INTERVAL;
use delayq_plugin::{InstanceInfo, TaskInfo, TaskType, Timestamp};

use super::counted;
use super::finding::{Finding, Severity, Symptom};

/// How many lost locks of one task, or silent instances of one host, are a crash loop: one is any
/// crash, or a host that went away.
const REPEATED: usize = 2;

/// How far back lost locks count.
const RECENTLY: Duration = Duration::from_hours(1);

/// The number of instances of lost locks that a finding names.
const MOST_NAMED: usize = 3;

const WHY: &str =
    "each crash delays the tasks that ran by their lock time, and costs them an attempt";

/// Hosts of which several instances fell silent while a later one is heard. One that stops in order
/// takes itself off the list.
pub(super) fn of_hosts(instances: &[InstanceInfo]) -> Vec<Finding> {
    let Some(last_seen) = instances.iter().map(|one| one.seen_at).max() else {
        return Vec::new();
    };
    // One announcement and half an interval more may be missing.
    let is_silent = |one: &&InstanceInfo| last_seen.since(one.seen_at) > ANNOUNCE_INTERVAL * 3 / 2;
    let mut silent: BTreeMap<&str, Vec<&InstanceInfo>> = BTreeMap::new();
    for one in instances.iter().filter(is_silent) {
        silent.entry(&one.host).or_default().push(one);
    }
    let is_loop = |host: &str, gone: &[&InstanceInfo]| {
        let last = gone.iter().map(|one| one.started_at).max();
        let is_later = |one: &InstanceInfo| one.host == host && Some(one.started_at) > last;
        gone.len() >= REPEATED && instances.iter().any(is_later)
    };
    let loops = silent.iter().filter(|(host, gone)| is_loop(host, gone));
    loops.map(|(host, gone)| of_host(host, gone)).collect()
}

fn of_host(host: &str, gone: &[&InstanceInfo]) -> Finding {
    let named: Vec<_> = gone.iter().map(|one| one.id.short()).collect();
    let count = counted(gone.len() as u64, "instance", "instances");
    let found = format!(
        "crash loop: {count} on {host} ended without an orderly stop ({}), and another one runs",
        named.join(", ")
    );
    Finding::new(
        Severity::Error,
        Symptom::Crashes,
        found,
        WHY,
        "look at the log of that host: a crash, a kill for want of memory, or a failing probe",
    )
    .with_command("delayq instances")
}

/// A type of which a running task has lost its lock several times.
pub(super) fn of_running(
    task_type: &TaskType,
    running: &[TaskInfo],
    now: Timestamp,
) -> Option<Finding> {
    let losers = running.iter().filter(|task| lost(task, now) >= REPEATED);
    let losers: Vec<_> = losers.collect();
    let worst = losers
        .iter()
        .max_by_key(|task| task.history.lock_expiries)?;
    let holders: BTreeSet<_> = worst
        .errors
        .iter()
        .filter_map(|past| past.expired_holder())
        .collect();
    let holders: Vec<_> = holders.into_iter().take(MOST_NAMED).collect();
    let by = match holders.as_slice() {
        [] => String::new(),
        known => format!(" (instances {})", known.join(", ")),
    };
    let others = match losers.len() - 1 {
        0 => String::new(),
        more => format!(
            ", and so did {}",
            counted(more as u64, "other task", "other tasks")
        ),
    };
    let found = format!(
        "crash loop: task {} lost its lock {} times{by}{others}",
        worst.id, worst.history.lock_expiries
    );
    let fix = "look at the log of the processes that held it: a crash, a kill for want of memory, or \
               a worker that hangs. If the task itself is the cause, it dies as poison";
    let finding = Finding::new(Severity::Error, Symptom::Crashes, found, WHY, fix);
    Some(
        finding
            .of_type(task_type)
            .of_task("explain", task_type, &worst.id),
    )
}

/// How many locks of a task expired within the last hour, of those that it remembers.
fn lost(task: &TaskInfo, now: Timestamp) -> usize {
    let is_recent = |at: Timestamp| now.since(at) <= RECENTLY;
    let lost = task.errors.iter().filter(|past| past.is_expired_lock());
    lost.filter(|past| is_recent(past.at)).count()
}
