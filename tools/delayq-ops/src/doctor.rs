//! Problems of a store, its types and its instances.

use std::collections::BTreeSet;
use std::time::Duration;

use delayq_plugin::store::{Durability, MAX_INSTANCES, StoreOptions, serving};
use delayq_plugin::{
    Error, InstanceInfo, Result, TaskState, TaskSubmitService, TaskType, Timestamp, minutes,
};

mod finding;

pub use finding::{Finding, Severity, Symptom};

use crate::look::Look;
use crate::span::said;

/// Maximum number of types checked, with two calls for each.
const MOST_TYPES: usize = 1_000;

/// Maximum number of running tasks of a type checked: those whose locks expire first.
const MOST_LOCKS: usize = 128;

/// How long a task may be due before that is a finding.
const OVERDUE: Duration = minutes(1);

/// How long an expired lock may remain: a running handler takes it over at once.
const STALE: Duration = Duration::from_secs(10);

/// Opens the store of `url` and checks it like [`doctor`]. If it cannot be opened, or not with the
/// durability in `options`, that is the only finding.
///
/// # Errors
/// `InvalidInput` for a URL that names no store, or for a missing file.
pub async fn doctor_at(url: &str, options: StoreOptions) -> Result<Vec<Finding>> {
    match TaskSubmitService::connect(url, options).await {
        Ok(tasks) => {
            let findings = doctor(&tasks).await;
            tasks.close().await;
            Ok(findings)
        }
        Err(error @ Error::InvalidInput { .. }) => Err(error),
        Err(error) => Ok(vec![of_store(&error)]),
    }
}

/// All problems found, the worst first; empty if there are none. Changes nothing.
///
/// The settings of the store are checked by [`Store::check`](delayq_plugin::Store::check), as at
/// each start of a plugin: for Redis the version, durability, replicas, eviction, memory and rights
/// of the user; for SQLite journal and sync. It also checks clocks, versions of the instances,
/// types that nobody serves, dead and overdue tasks, pauses without an end, and locks of instances
/// that are gone. Takes up to two calls for each type, for at most 1,000 types.
///
/// If the store does not answer, that is the only finding. Any other failed call is a finding, too,
/// and the other calls are still made.
pub async fn doctor(tasks: &TaskSubmitService) -> Vec<Finding> {
    let found = examine(tasks).await;
    found.unwrap_or_else(|error| vec![of_store(&error)])
}

/// Like [`doctor`], for callers that distinguish a store without answers from one with problems.
///
/// # Errors
/// The error of a store that does not answer.
pub async fn examine(tasks: &TaskSubmitService) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if let Err(error) = tasks.store().check().await {
        if is_silent(&error) {
            return Err(error);
        }
        findings.push(of_store(&error));
    }
    if tasks.store().durability() == Durability::Memory {
        findings.push(Finding {
            severity: Severity::Warning,
            symptom: Symptom::Volatile,
            task_type: None,
            found: format!("{} keeps tasks in memory only", tasks.store().name()),
            why: "they are lost when the store's process ends".to_owned(),
            fix: "use a store of the class process or better: sqlite:PATH, or Redis with \
                  appendonly yes"
                .to_owned(),
        });
    }
    let looked = look(tasks, &mut findings).await;
    if let Err(error) = looked {
        findings.push(of_store(&error));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

/// True if further calls would only wait as long again.
fn is_silent(error: &Error) -> bool {
    matches!(
        error,
        Error::Unavailable { .. } | Error::Indeterminate { .. }
    )
}

async fn look(tasks: &TaskSubmitService, findings: &mut Vec<Finding>) -> Result<()> {
    let instances = tasks.instances().await?;
    findings.extend(versions(&instances));
    let types = tasks.types().await?;
    let mut has_skew = false;
    for task_type in types.iter().take(MOST_TYPES) {
        let look = match Look::at(tasks, task_type.as_str()).await {
            Ok(look) => look,
            // The damage concerns one type: the others are still checked.
            Err(error) if !is_silent(&error) => {
                findings.push(of_store(&error));
                continue;
            }
            Err(error) => return Err(error),
        };
        if !has_skew {
            let skew = clocks(&look);
            has_skew = skew.is_some();
            findings.extend(skew);
        }
        of_type(task_type, &look, &instances, findings);
        if look.stats.running > 0 {
            match locks(tasks, task_type, &instances, look.stats.now).await {
                Ok(found) => findings.extend(found),
                Err(error) if !is_silent(&error) => findings.push(of_store(&error)),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The finding for an error of the store, which names the line to change.
fn of_store(error: &Error) -> Finding {
    let (found, fix) = match error {
        Error::Misconfigured {
            store,
            setting,
            fix,
        } => (format!("{store}: {setting}"), fix.clone()),
        Error::Incompatible { .. } => (error.to_string(), "upgrade delayq here".to_owned()),
        Error::Full { .. } => (
            error.to_string(),
            "make room: more memory or disk for the store, or fewer tasks".to_owned(),
        ),
        Error::Corrupt { .. } => (
            error.to_string(),
            "mend what the message names, then `delayq audit --repair`".to_owned(),
        ),
        Error::ReadOnly { .. } => (
            error.to_string(),
            "let this store be written, or connect to its primary".to_owned(),
        ),
        _ => (
            error.to_string(),
            "see whether the store runs and can be reached from this host".to_owned(),
        ),
    };
    Finding {
        severity: Severity::Error,
        symptom: Symptom::Store,
        task_type: None,
        found,
        why: "without it tasks are refused, wait, or are not as safe as asked for".to_owned(),
        fix,
    }
}

fn versions(instances: &[InstanceInfo]) -> Option<Finding> {
    let versions: BTreeSet<_> = instances.iter().map(|one| one.version.as_str()).collect();
    (versions.len() > 1).then(|| Finding {
        severity: Severity::Note,
        symptom: Symptom::Versions,
        task_type: None,
        found: format!(
            "instances run delayq {}",
            versions.into_iter().collect::<Vec<_>>().join(" and ")
        ),
        why: "what an earlier release does not know, it does not store or count".to_owned(),
        fix: "finish the deployment".to_owned(),
    })
}

fn clocks(look: &Look) -> Option<Finding> {
    look.skew.map(|skew| Finding {
        severity: Severity::Warning,
        symptom: Symptom::Clocks,
        task_type: None,
        found: skew.to_string(),
        why: "tasks start when the store's clock says so, and on this host not before its own does"
            .to_owned(),
        fix: "run NTP on this host and on that of the store".to_owned(),
    })
}

/// The findings in the counts of a type.
fn of_type(
    task_type: &TaskType,
    look: &Look,
    instances: &[InstanceInfo],
    findings: &mut Vec<Finding>,
) {
    let stats = &look.stats;
    let mut add = |severity, symptom, found: String, why: &str, fix: String| {
        findings.push(Finding {
            severity,
            symptom,
            task_type: Some(task_type.clone()),
            found: format!("{task_type}: {found}"),
            why: why.to_owned(),
            fix,
        });
    };
    let is_served = serving(instances, task_type) > 0;
    if !is_served && stats.scheduled > 0 {
        let waits = counted(stats.scheduled, "task waits", "tasks wait");
        let found = format!("{waits}, and no announced instance serves it");
        let fix = "start an instance with a worker for it, or correct its name where it is sent";
        let why = "none of them starts";
        add(
            Severity::Error,
            Symptom::Unserved,
            found,
            why,
            fix.to_owned(),
        );
    }
    if let Some(until) = stats.paused_until.filter(|_| stats.due > 0) {
        let end = if until == Timestamp::MAX {
            "without an end".to_owned()
        } else {
            format!("until {until}")
        };
        let due = counted(stats.due, "task is due", "tasks are due");
        let found = format!("it is paused {end}, and {due}");
        let fix = format!("resume {task_type}, if the reason is gone");
        let why = "none of them starts before";
        add(Severity::Warning, Symptom::Paused, found, why, fix);
    } else if is_served && stats.oldest_age() > OVERDUE {
        let age = said(stats.oldest_age());
        let due = counted(stats.due, "task is due", "tasks are due");
        let found = format!("{due}, the first one for {age}");
        let fix = "explain that task: it names what holds it".to_owned();
        add(
            Severity::Warning,
            Symptom::Overdue,
            found,
            "they start late",
            fix,
        );
    }
    if stats.dead > 0 {
        let found = counted(stats.dead, "task is dead", "tasks are dead");
        let fix = "look at its dead groups, then requeue or discard them".to_owned();
        let why = "they wait for an operator, and are kept until then";
        add(Severity::Warning, Symptom::Dead, found, why, fix);
    }
    if let Some(limit) = stats.max_pending.filter(|limit| stats.scheduled >= *limit) {
        let waits = counted(stats.scheduled, "task waits", "tasks wait");
        let found = format!("{waits}, as many as max_pending = {limit} lets");
        let fix = "let more instances serve it, or raise max_pending".to_owned();
        add(
            Severity::Error,
            Symptom::Full,
            found,
            "new ones are refused",
            fix,
        );
    }
}

/// The number, with the text for one or for many.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Findings about expired locks, and about locks of instances that are gone.
async fn locks(
    tasks: &TaskSubmitService,
    task_type: &TaskType,
    instances: &[InstanceInfo],
    now: Timestamp,
) -> Result<Option<Finding>> {
    let running = tasks.list(task_type.as_str(), TaskState::Running, None, MOST_LOCKS);
    let running = running.await?.tasks;
    let is_stale = |at: Timestamp| now.since(at) > STALE;
    let is_gone = |holder: &str| !instances.iter().any(|one| one.id.short() == holder);
    let stale = running.iter().filter(|task| is_stale(task.at)).count() as u64;
    let is_listed = instances.len() < MAX_INSTANCES;
    let orphans = running.iter().filter(|task| {
        is_listed && !is_stale(task.at) && task.holder.as_deref().is_some_and(is_gone)
    });
    let orphans = orphans.count() as u64;
    let mut parts = Vec::new();
    if stale > 0 {
        let one = "has a lock that has expired and nobody took over";
        let many = "have locks that have expired and nobody took over";
        parts.push(counted(stale, one, many));
    }
    if orphans > 0 {
        let one = "is locked by an instance that is no longer announced";
        let many = "are locked by instances that are no longer announced";
        parts.push(counted(orphans, one, many));
    }
    Ok((!parts.is_empty()).then(|| Finding {
        severity: Severity::Warning,
        symptom: Symptom::Locks,
        task_type: Some(task_type.clone()),
        found: format!(
            "{task_type}: of the first {} that run {}",
            running.len(),
            parts.join(", ")
        ),
        why: "their tasks start again only when the lock has expired and an instance claims"
            .to_owned(),
        fix: "start an instance that serves the type; a shorter `lock` of its worker brings them \
              back sooner"
            .to_owned(),
    }))
}
