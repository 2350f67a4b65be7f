//! The end of a run: no faults any more, everything drains, the store is looked at, the checker judges.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use delayq_plugin::{TaskInfo, TaskState, TaskSubmitService, TaskType, When, millis, seconds};
use rustix::process::Signal;

use super::failure::{Result, failure};
use super::stage::Stage;
use crate::check::{Outcome, check};
use crate::event::{Event, StoredTask, What};
use crate::history::History;

/// How long the last tasks may take; then the store is looked at as it is, and the checker names them.
const PATIENCE: Duration = seconds(60);
/// Tasks of one page, and lookups under way at a time.
const PAGE: usize = 128;
/// A task due later than this from now was sent while a clock was wrong: no delay of a run is so long.
const FAR: Duration = seconds(60);

/// Ends the submitters, awaits the last task, ends the workers, and records what the store holds.
pub(crate) async fn drain(stage: &mut Stage) -> Result<()> {
    for submitter in &mut stage.submitters {
        submitter.quiet()?;
    }
    for submitter in &mut stage.submitters {
        let status = submitter.gone().await?;
        if !status.success() {
            return failure(format!("{} failed: {status}", submitter.name()));
        }
    }
    let mut left = 0;
    for _ in 0..PATIENCE.as_millis() / 100 {
        left = remaining(&stage.service).await?;
        if left == 0 {
            break;
        }
        tokio::time::sleep(millis(100)).await;
    }
    println!("drained: {left} tasks left");
    stage.recorder.record(What::Drained { left });
    for worker in &stage.workers {
        worker.signal(Signal::TERM)?;
    }
    for worker in &mut stage.workers {
        let status = worker.gone().await?;
        if !status.success() {
            return failure(format!("{} failed: {status}", worker.name()));
        }
    }
    stage.sink.kill();
    dump(stage).await?;
    stage.recorder.record_clock();
    stage.recorder.record(What::Down);
    Ok(())
}

/// How many tasks have not ended. Those that a wrong clock put far off are made due now.
async fn remaining(service: &TaskSubmitService) -> Result<u64> {
    let mut left = 0;
    for task_type in service.types().await? {
        let task_type = task_type.as_str();
        let stats = service.stats(task_type).await?;
        left += stats.scheduled + stats.running;
        let page = service
            .list(task_type, TaskState::Scheduled, None, PAGE)
            .await?;
        for task in page
            .tasks
            .iter()
            .filter(|task| task.at > stats.now.plus(FAR))
        {
            let now = When::After(Duration::ZERO);
            service.reschedule(task_type, task.id.as_str(), now).await?;
        }
    }
    Ok(left)
}

async fn dump(stage: &Stage) -> Result<()> {
    let mut known = sent(&stage.sink.part.folder)?;
    let mut now = None;
    for task_type in stage.service.types().await? {
        let report = stage.service.audit(task_type.as_str(), false).await?;
        let problems = report
            .problems
            .iter()
            .map(|p| (p.id.clone(), p.what.clone()))
            .collect();
        stage.recorder.record(What::Audited {
            task_type: task_type.to_string(),
            problems,
        });
        let mut ids = known.remove(task_type.as_str()).unwrap_or_default();
        for state in [TaskState::Scheduled, TaskState::Running, TaskState::Dead] {
            dump_state(stage, &task_type, state, &mut ids).await?;
        }
        dump_ended(stage, &task_type, ids).await?;
        now = Some(stage.service.stats(task_type.as_str()).await?.now);
    }
    match now {
        Some(store_now) => stage.recorder.record(What::Dumped { store_now }),
        None => return failure("the store knows no type"),
    }
    Ok(())
}

async fn dump_state(
    stage: &Stage,
    task_type: &TaskType,
    is: TaskState,
    ids: &mut BTreeSet<String>,
) -> Result<()> {
    let mut after = None;
    loop {
        let service = &stage.service;
        let page = service
            .list(task_type.as_str(), is, after.as_ref(), PAGE)
            .await?;
        for task in &page.tasks {
            ids.remove(task.id.as_str());
            stage.recorder.record(What::Stored(stored(task_type, task)));
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Ended tasks are known only by their ids.
async fn dump_ended(stage: &Stage, task_type: &TaskType, ids: BTreeSet<String>) -> Result<()> {
    let ids: Vec<_> = ids.into_iter().collect();
    for page in ids.chunks(PAGE) {
        let mut finds = tokio::task::JoinSet::new();
        for id in page {
            let (service, task_type, id) = (stage.service.clone(), task_type.clone(), id.clone());
            finds.spawn(async move { service.find(task_type.as_str(), &id).await });
        }
        for found in finds.join_all().await {
            if let Some(task) = found? {
                stage
                    .recorder
                    .record(What::Stored(stored(task_type, &task)));
            }
        }
    }
    Ok(())
}

fn stored(task_type: &TaskType, task: &TaskInfo) -> StoredTask {
    let trail = &task.trail;
    StoredTask {
        task: format!("{task_type}/{}", task.id),
        state: task.state,
        at: task.at,
        attempt: task.attempt,
        trail: Some((
            trail.failures,
            trail.lock_expiries,
            trail.releases,
            trail.requeues,
        )),
    }
}

/// The ids of all tasks that anybody tried to send, by type.
fn sent(folder: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut sent: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        for line in BufReader::new(std::fs::File::open(path)?).lines() {
            let line = line?;
            // The last line of a process that was killed may be cut off.
            let Ok(event) = serde_json::from_str::<Event>(&line) else {
                continue;
            };
            let What::SubmitInvoked { tasks, .. } = event.what else {
                continue;
            };
            for (task_type, id) in tasks.iter().filter_map(|task| task.task.split_once('/')) {
                sent.entry(task_type.to_owned())
                    .or_default()
                    .insert(id.to_owned());
            }
        }
    }
    Ok(sent)
}

/// Holds the record against the promises, and shows the verdict.
pub(crate) fn judge(folder: &Path) -> Result<Outcome> {
    let verdict = check(&History::read(folder)?);
    println!("\n{verdict}");
    Ok(verdict.outcome())
}
