//! Tasks that wait until they are let run: what a drain takes, and what a task's whole life costs
//! the server.

use std::time::Duration;

use delayq_plugin::{DelayQueueJob, DelayQueuePlugin, TaskSubmitService};

use crate::Failure;
use crate::bare_redis::cpu_us_each;
use crate::load::{self, BULK, Message, parts};
use crate::stage::{Stage, end};
use crate::throughput::all_accepted;
use crate::worker::{Counter, Typed};

/// Tasks that wait behind a pause, and what it takes to run them.
#[derive(Debug)]
pub(crate) struct Backlog {
    plugin: DelayQueuePlugin,
    tasks: TaskSubmitService,
    types: Vec<String>,
    worker: Counter,
    count: usize,
}

impl Backlog {
    /// A process that serves so many types, all of them paused; `count` tasks are to come.
    pub(crate) async fn of(stage: &Stage, types: usize, count: usize) -> Result<Self, Failure> {
        let (worker, types) = (Counter::up_to(count), load::types(types));
        let site = stage.site().await?;
        let plugin = site
            .plugin_of_types(&types, Typed(worker.clone()), |settings| settings)
            .await?;
        let tasks = plugin.submit_service();
        for task_type in &types {
            tasks.pause(task_type, None).await?;
        }
        Ok(Self {
            plugin,
            tasks,
            types,
            worker,
            count,
        })
    }

    /// Sends the tasks in bulk, to the types in turn.
    pub(crate) async fn send(&self) -> Result<(), Failure> {
        for bulk in parts(self.count, BULK) {
            let types = self.types.iter().cycle();
            let jobs = types.zip(bulk).map(|(task_type, number)| {
                DelayQueueJob::new(task_type.as_str(), &Message::new(number))
            });
            all_accepted(self.tasks.send_all(jobs.collect::<Result<_, _>>()?).await)?;
        }
        Ok(())
    }

    /// Lets them run; returns once all are settled.
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        for task_type in &self.types {
            self.tasks.resume(task_type).await?;
        }
        self.worker.wait().await?;
        for task_type in &self.types {
            all_settled(&self.tasks, task_type).await?;
        }
        Ok(())
    }

    pub(crate) async fn end(self) {
        end(self.plugin).await;
    }
}

/// Microseconds of the server's main thread for the whole life of a task: sent in bulk, claimed,
/// settled.
pub(crate) async fn life_cpu(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let backlog = Backlog::of(stage, 1, count).await?;
    let mut redis = stage.bare_redis().await?;
    let before = redis.cpu_time().await?;
    backlog.send().await?;
    backlog.run().await?;
    let cpu = cpu_us_each(before, redis.cpu_time().await?, count);
    backlog.end().await;
    Ok(cpu)
}

pub(crate) async fn all_settled(tasks: &TaskSubmitService, task_type: &str) -> Result<(), Failure> {
    loop {
        let stats = tasks.stats(task_type).await?;
        if stats.scheduled + stats.running == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
