//! Problems of a store, its types and its instances.

use std::collections::BTreeSet;

use delayq_plugin::history::concern_of_records;
use delayq_plugin::store::{Concern, Durability, StoreOptions};
use delayq_plugin::{Error, InstanceInfo, Result, TaskSubmitService};

mod crashes;
mod finding;
mod seen;

pub use finding::{Finding, Severity, Symptom, quoted};

use self::finding::REPAIR;
use self::seen::Seen;
use crate::look::Look;

/// Maximum number of types checked, with two to four calls for each.
const MOST_TYPES: usize = 1_000;

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
/// of the user; for PostgreSQL the version, durability, encoding and isolation; for SQLite journal
/// and sync. What becomes a problem of the store later is a warning. It also checks clocks,
/// versions of the instances, types that nobody serves, dead and overdue tasks, pauses without an
/// end, locks of instances that are gone, and processes that crash again and again. Takes up to
/// four calls for each type, for at most 1,000 types.
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
        findings.push(Finding::new(
            Severity::Warning,
            Symptom::Volatile,
            format!("{} keeps tasks in memory only", tasks.store().name()),
            "they are lost when the store's process ends",
            "use a store of the class process or better: sqlite:PATH, Redis with appendonly yes, or \
             PostgreSQL with synchronous_commit on",
        ));
    }
    findings.extend(concerns(tasks).await.into_iter().map(|one| {
        Finding::new(
            Severity::Warning,
            Symptom::Concern,
            one.found,
            &one.why,
            &one.fix,
        )
    }));
    let looked = look(tasks, &mut findings).await;
    if let Err(error) = looked {
        findings.push(of_store(&error));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

/// What becomes a problem of the store later, and of the history if this process ships to it, or of
/// the records that wait for one.
pub async fn concerns(tasks: &TaskSubmitService) -> Vec<Concern> {
    let mut concerns = tasks.store().concerns().await.unwrap_or_default();
    let now = tasks.clock().now();
    if let Some(history) = tasks.history().and_then(|history| history.health()) {
        concerns.extend(history.concerns(now));
    } else if let Ok(waiting) = tasks.store().ends_status().await {
        concerns.extend(concern_of_records(&waiting, now));
    }
    concerns
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
    findings.extend(crashes::of_hosts(&instances));
    let types = tasks.types().await?;
    let mut has_skew = false;
    for task_type in types.iter().take(MOST_TYPES) {
        let look = match Look::at(tasks, task_type.as_str()).await {
            Ok(look) => look,
            // The damage concerns one type: the others are still checked.
            Err(error) if !is_silent(&error) => {
                findings.push(of_store(&error).about(task_type));
                continue;
            }
            Err(error) => return Err(error),
        };
        if !has_skew {
            let skew = clocks(&look);
            has_skew = skew.is_some();
            findings.extend(skew);
        }
        let seen = Seen {
            task_type,
            look: &look,
            instances: &instances,
        };
        match seen.examine(tasks).await {
            Ok(found) => findings.extend(found),
            Err(error) if !is_silent(&error) => findings.push(of_store(&error).about(task_type)),
            Err(error) => return Err(error),
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
            "mend what the message names, then let the structure be checked and repaired"
                .to_owned(),
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
    let why = "without it tasks are refused, wait, or are not as safe as asked for";
    let finding = Finding::new(Severity::Error, Symptom::Store, found, why, &fix);
    match error {
        Error::Corrupt { .. } => finding.with_command(REPAIR),
        _ => finding,
    }
}

fn versions(instances: &[InstanceInfo]) -> Option<Finding> {
    let versions: BTreeSet<_> = instances.iter().map(|one| one.version.as_str()).collect();
    let versions: Vec<_> = versions.into_iter().collect();
    (versions.len() > 1).then(|| {
        Finding::new(
            Severity::Note,
            Symptom::Versions,
            format!("instances run delayq {}", versions.join(" and ")),
            "what an earlier release does not know, it does not store or count",
            "finish the deployment; the list shows which host has which version",
        )
        .with_command("delayq instances")
    })
}

fn clocks(look: &Look) -> Option<Finding> {
    look.skew.map(|skew| {
        Finding::new(
            Severity::Warning,
            Symptom::Clocks,
            skew.to_string(),
            "tasks start when the store's clock says so, and on this host not before its own does",
            "run NTP on this host and on that of the store",
        )
    })
}

/// The number, with the text for one or for many.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
