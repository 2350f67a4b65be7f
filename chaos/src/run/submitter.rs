//! A submitter process: it sends tasks at a steady pace, repeats what was not answered, and cancels,
//! moves and changes some of what it sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use delayq_plugin::{DelayQueueJob, Result, TaskSubmitService, When, millis};
use tokio::task::JoinSet;

use super::chore::{Chore, Message};
use super::part::{Part, SHARED_TYPES};
use crate::record::Recorder;

/// Calls under way at a time.
const SENDERS: u64 = 4;
/// Most tasks of one call.
const BATCH: usize = 16;
/// Longest delay of a task.
const MAX_DELAY_MS: u64 = 1_500;

struct Sender {
    name: String,
    lock_ms: u64,
    per_second: u64,
    tasks: TaskSubmitService,
    sent: Arc<AtomicU64>,
    dice: fastrand::Rng,
}

/// Sends until `quiet`, then returns once everything that it began has been accepted.
pub(crate) async fn submit(
    part: &Part,
    recorder: &Recorder,
    per_second: u64,
    quiet: Arc<AtomicBool>,
) {
    let store = part.store(recorder).await;
    println!("up");
    let sent = Arc::new(AtomicU64::new(0));
    let mut senders = JoinSet::new();
    for n in 0..SENDERS {
        let sender = Sender {
            name: format!("{}.{}.{n}", part.name, part.incarnation),
            lock_ms: part.lock_ms,
            per_second: (per_second / SENDERS).max(1),
            tasks: TaskSubmitService::new(Arc::clone(&store)),
            sent: Arc::clone(&sent),
            dice: fastrand::Rng::with_seed(part.seed.wrapping_add(n << 32)),
        };
        senders.spawn(sender.run(Arc::clone(&quiet)));
    }
    let mut ticks = tokio::time::interval(millis(250));
    while !senders.is_empty() {
        tokio::select! {
            _ = senders.join_next() => {}
            _ = ticks.tick() => println!("done {}", sent.load(Ordering::Relaxed)),
        }
    }
    println!("done {}", sent.load(Ordering::Relaxed));
    store.close().await;
}

impl Sender {
    async fn run(mut self, quiet: Arc<AtomicBool>) {
        let mut known: Vec<(String, String)> = Vec::new();
        let mut count = 0;
        while !quiet.load(Ordering::Relaxed) {
            let size = self.dice.usize(1..=BATCH);
            let mut jobs = Vec::new();
            for _ in 0..size {
                count += 1;
                let task_type = *self.dice.choice(&SHARED_TYPES).unwrap_or(&"alpha");
                let id = format!("{}-{count}", self.name);
                let Ok(job) =
                    Chore::random(&mut self.dice, self.lock_ms).job(task_type, &mut self.dice)
                else {
                    continue;
                };
                let delay = self.dice.u64(0..=MAX_DELAY_MS);
                jobs.push(job.id(id.clone()).after(millis(delay)));
                known.push((task_type.to_owned(), id));
            }
            self.send(jobs).await;
            self.sent.fetch_add(size as u64, Ordering::Relaxed);
            let first = known.len().saturating_sub(100);
            known.drain(..first);
            if self.dice.u32(0..3) == 0
                && let Some((task_type, id)) = self.dice.choice(&known)
            {
                // Whatever is answered is in the record; an unanswered change is not repeated.
                let _ = self.change(task_type, id).await;
            }
            tokio::time::sleep(millis(size as u64 * 1_000 / self.per_second)).await;
        }
    }

    /// Sends the same again until it is accepted: a failure of any kind must not lose a task.
    async fn send(&self, mut jobs: Vec<DelayQueueJob>) {
        while !jobs.is_empty() {
            let results = self.tasks.send_all(jobs.clone()).await;
            let pairs = jobs.into_iter().zip(results);
            jobs = pairs
                .filter_map(|(job, result)| result.is_err().then_some(job))
                .collect();
            if !jobs.is_empty() {
                tokio::time::sleep(millis(20)).await;
            }
        }
    }

    async fn change(&mut self, task_type: &str, id: &str) -> Result<()> {
        match self.dice.u32(0..10) {
            0..5 => {
                self.tasks.cancel(task_type, id).await?;
            }
            5..8 => {
                let when = When::After(millis(self.dice.u64(0..MAX_DELAY_MS)));
                self.tasks.reschedule(task_type, id, when).await?;
            }
            _ => {
                let chore = Chore::Work(self.dice.u64(0..20));
                let padding = "changed".to_owned();
                self.tasks
                    .update(task_type, id, &Message { chore, padding })
                    .await?;
            }
        }
        Ok(())
    }
}
