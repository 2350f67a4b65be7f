//! The end of a run: no faults any more, everything drains, the store is looked at, the checker
//! judges.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use delayq_plugin::{TaskInfo, TaskState, TaskSubmitService, TaskType, When, millis, seconds};
use rustix::process::Signal;

use super::failure::{Result, failure};
use super::process::Process;
use super::stage::Stage;
use crate::check::{Outcome, check};
use crate::event::{Event, StoredTask, What};
use crate::history::History;
use crate::record::Recorder;

/// How long the last tasks may take; then the store is looked at as it is, and the checker names
/// them.
const PATIENCE: Duration = seconds(60);
/// Tasks of one page, and lookups under way at a time.
const PAGE: usize = 128;
/// A task due later than this from now was sent while a clock was wrong: no delay of a run is so
/// long.
const FAR: Duration = seconds(60);

/// A store that no fault is done to any more, and those who use it.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    pub(crate) workers: &'a mut [Process],
    pub(crate) submitters: &'a mut [Process],
    /// The driver's own.
    pub(crate) service: &'a TaskSubmitService,
    pub(crate) recorder: &'a Recorder,
    /// The folder of the record.
    pub(crate) folder: &'a Path,
    /// The first incarnation of the processes that sent to this very store.
    pub(crate) since: u32,
}

/// Ends the submitters, awaits the last task, ends the workers, and records what the store holds.
pub(crate) async fn drain(stage: &mut Stage) -> Result<()> {
    let mut ending = Ending {
        workers: &mut stage.workers,
        submitters: &mut stage.submitters,
        service: &stage.service,
        recorder: &stage.recorder,
        folder: &stage.effect_log.part.folder,
        since: 1,
    };
    let left = ending.calm().await?;
    println!("drained: {left} tasks left");
    ending.dump().await?;
    stage.effect_log.kill();
    stage.recorder.record_clock();
    stage.recorder.record(What::Down);
    Ok(())
}

impl Ending<'_> {
    /// Ends the submitters, awaits the last task, and ends the workers. Says how many tasks are
    /// left.
    pub(crate) async fn calm(&mut self) -> Result<u64> {
        for submitter in self.submitters.iter_mut() {
            submitter.quiet()?;
        }
        all_gone(self.submitters).await?;
        let mut left = 0;
        for _ in 0..PATIENCE.as_millis() / 100 {
            left = remaining(self.service).await?;
            if left == 0 {
                break;
            }
            tokio::time::sleep(millis(100)).await;
        }
        self.recorder.record(What::Drained { left });
        for worker in self.workers.iter() {
            worker.signal(Signal::TERM)?;
        }
        all_gone(self.workers).await?;
        Ok(left)
    }

    /// Records what the store holds.
    pub(crate) async fn dump(&self) -> Result<()> {
        let mut known = sent(self.folder, self.since)?;
        let mut now = None;
        for task_type in self.service.types().await? {
            let report = self.service.audit(task_type.as_str(), false).await?;
            let problems = report
                .problems
                .iter()
                .map(|p| (p.id.clone(), p.what.clone()))
                .collect();
            self.recorder.record(What::Audited {
                task_type: task_type.to_string(),
                problems,
            });
            let mut ids = known.remove(task_type.as_str()).unwrap_or_default();
            for state in [TaskState::Scheduled, TaskState::Running, TaskState::Dead] {
                self.dump_state(&task_type, state, &mut ids).await?;
            }
            self.dump_ended(&task_type, ids).await?;
            now = Some(self.service.stats(task_type.as_str()).await?.now);
        }
        match now {
            Some(store_now) => self.recorder.record(What::Dumped { store_now }),
            None => return failure("the store knows no type"),
        }
        Ok(())
    }

    async fn dump_state(
        &self,
        task_type: &TaskType,
        is: TaskState,
        ids: &mut BTreeSet<String>,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let page = self
                .service
                .list(task_type.as_str(), is, after.as_ref(), PAGE)
                .await?;
            for task in &page.tasks {
                ids.remove(task.id.as_str());
                self.recorder.record(What::Stored(stored(task_type, task)));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Ended tasks are known only by their ids.
    async fn dump_ended(&self, task_type: &TaskType, ids: BTreeSet<String>) -> Result<()> {
        let ids: Vec<_> = ids.into_iter().collect();
        for page in ids.chunks(PAGE) {
            let mut finds = tokio::task::JoinSet::new();
            for id in page {
                let (service, task_type, id) =
                    (self.service.clone(), task_type.clone(), id.clone());
                finds.spawn(async move { service.find(task_type.as_str(), &id).await });
            }
            for found in finds.join_all().await {
                if let Some(task) = found? {
                    self.recorder.record(What::Stored(stored(task_type, &task)));
                }
            }
        }
        Ok(())
    }
}

async fn all_gone(processes: &mut [Process]) -> Result<()> {
    for process in processes {
        let status = process.gone().await?;
        if !status.success() {
            return failure(format!("{} failed: {status}", process.name()));
        }
    }
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
            let _ = service.reschedule(task_type, task.id.as_str(), now).await?;
        }
    }
    Ok(left)
}

fn stored(task_type: &TaskType, task: &TaskInfo) -> StoredTask {
    let trail = &task.history;
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

/// The ids of all tasks that incarnations from `since` on tried to send, by type.
fn sent(folder: &Path, since: u32) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut sent: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // NAME.INCARNATION.jsonl; the driver, which sends a little, has but one.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = name.strip_suffix(".jsonl") else {
            continue;
        };
        let incarnation = name
            .rsplit('.')
            .next()
            .and_then(|number| number.parse().ok());
        if incarnation.is_some_and(|number: u32| number < since) {
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
