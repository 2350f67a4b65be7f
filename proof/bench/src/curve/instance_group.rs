//! Processes with workers on one fresh Redis, and what they do together.

use std::time::{Duration, Instant};

use delayq_core::store::StoreOptions;
use delayq_plugin::{Clock, DelayQueueJob, SystemClock, TaskSubmitService, millis, seconds};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::Failure;
use crate::bare_redis::BareRedis;
use crate::curve::instance::{Account, Instance, Orders, task_type};
use crate::curve::pace;
use crate::load::{BULK, Message};
use crate::redis_server::{Persistence, RedisServer};
use crate::stage::LARGE_FILE;

/// How often the processes are asked whether all tasks have run.
const ASK_EVERY: Duration = millis(10);
/// How long tasks may stay undone without one more being run.
const PATIENCE: Duration = seconds(30);
/// Calls that name one type each, made at the same time.
const AT_ONCE: usize = 64;
/// In a steady flow so many tasks become due in the same millisecond, so often, sent so long
/// before.
pub(crate) const TRICKLE: (usize, Duration, Duration) = (64, millis(100), millis(300));

/// Processes with workers.
#[derive(Debug)]
pub(crate) struct InstanceGroup {
    pub(crate) instances: Vec<Instance>,
    pub(crate) server: RedisServer,
    tasks: TaskSubmitService,
    task_types: usize,
    /// Connections to the server before there was any process.
    clients_before: usize,
}

/// What a drain took.
#[derive(Debug)]
pub(crate) struct Drained {
    /// Tasks a second, from the first resume until the last one ran.
    pub(crate) rate: f64,
    /// Of each process.
    pub(crate) accounts: Vec<Account>,
}

impl InstanceGroup {
    /// So many processes, with so many types each.
    pub(crate) async fn gather(
        processes: usize,
        task_types: usize,
        threads: Option<usize>,
    ) -> Result<Self, Failure> {
        let server = RedisServer::start(Persistence::EverySecond, &LARGE_FILE);
        let tasks = TaskSubmitService::connect(&server.url(), StoreOptions::default()).await?;
        let mut group = Self {
            instances: Vec::new(),
            clients_before: clients(&server.url()).await?,
            server,
            tasks,
            task_types,
        };
        let orders = Orders {
            url: group.server.url(),
            task_types,
            threads,
        };
        for _ in 0..processes {
            group.instances.push(Instance::start(&orders).await?);
        }
        Ok(group)
    }

    /// Connections of all processes.
    pub(crate) async fn connections(&self) -> Result<usize, Failure> {
        let now = clients(&self.server.url()).await?;
        Ok(now.saturating_sub(self.clients_before))
    }

    /// Runs `count` tasks, spread evenly over the types, that wait behind a pause until all are
    /// there.
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) async fn drain(&mut self, count: usize) -> Result<Drained, Failure> {
        self.each_type(|tasks, name| async move { tasks.pause(&name, None).await.map(drop) })
            .await?;
        let types = self.task_types;
        let job = |n| DelayQueueJob::new(task_type(n % types), &Message::new(n));
        pace::send(&self.tasks, count, BULK, job).await?;
        let before = self.accounts().await?;
        let started = SystemClock.now().as_millis();
        self.each_type(|tasks, name| async move { tasks.resume(&name).await.map(drop) })
            .await?;
        let accounts = self.until_run(&before, count).await?;
        let last = accounts.iter().map(|account| account.last_ms).max();
        let took_ms = last.unwrap_or(started).saturating_sub(started).max(1);
        Ok(Drained {
            rate: count as f64 * 1_000.0 / took_ms as f64,
            accounts,
        })
    }

    /// Sends tasks of the first type in a steady flow for `span`. Returns how many times some
    /// became due, and what each process did.
    pub(crate) async fn trickle(
        &mut self,
        span: Duration,
    ) -> Result<(usize, Vec<Account>), Failure> {
        let (at_once, every, ahead) = TRICKLE;
        let before = self.accounts().await?;
        let mut times = 0;
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let started = Instant::now();
        while started.elapsed() < span {
            ticks.tick().await;
            let due = SystemClock.now().plus(ahead);
            let job = |n| Ok(DelayQueueJob::new(task_type(0), &Message::new(n))?.at(due));
            pace::send(&self.tasks, at_once, at_once, job).await?;
            times += 1;
        }
        Ok((times, self.until_run(&before, times * at_once).await?))
    }

    pub(crate) async fn end(self) -> Result<(), Failure> {
        for instance in self.instances {
            instance.end().await?;
        }
        Ok(())
    }

    async fn accounts(&mut self) -> Result<Vec<Account>, Failure> {
        let mut accounts = Vec::new();
        for instance in &mut self.instances {
            accounts.push(instance.account().await?);
        }
        Ok(accounts)
    }

    /// What each process has done after `before`, once `count` tasks have run.
    async fn until_run(
        &mut self,
        before: &[Account],
        count: usize,
    ) -> Result<Vec<Account>, Failure> {
        let mut progress = (0, Instant::now());
        loop {
            let now = self.accounts().await?.into_iter();
            let accounts: Vec<_> = now.zip(before).map(|(now, b)| now.since(*b)).collect();
            let ran = usize::try_from(accounts.iter().map(|account| account.ran).sum::<u64>())?;
            if ran > count {
                return Err(format!("{ran} runs of {count} tasks: some ran twice").into());
            } else if ran == count {
                return Ok(accounts);
            } else if ran > progress.0 {
                progress = (ran, Instant::now());
            } else if progress.1.elapsed() > PATIENCE {
                return Err(format!("{ran} of {count} tasks ran, and no more").into());
            }
            sleep(ASK_EVERY).await;
        }
    }

    async fn each_type<F>(
        &self,
        call: impl Fn(TaskSubmitService, String) -> F,
    ) -> Result<(), Failure>
    where
        F: Future<Output = delayq_plugin::Result<()>> + Send + 'static,
    {
        let mut calls = JoinSet::new();
        for number in 0..self.task_types {
            if calls.len() >= AT_ONCE
                && let Some(ended) = calls.join_next().await
            {
                ended??;
            }
            calls.spawn(call(self.tasks.clone(), task_type(number)));
        }
        while let Some(ended) = calls.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn clients(url: &str) -> Result<usize, Failure> {
    let mut redis = BareRedis::connect(url).await?;
    Ok(redis.info("clients", "connected_clients").await?.parse()?)
}
