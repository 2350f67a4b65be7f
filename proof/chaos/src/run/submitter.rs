//! A submitter process: it sends tasks at a steady pace, repeats what was not answered, and
//! cancels, moves and changes some of what it sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use delayq_plugin::{DelayQueueJob, Error, TaskSubmitService, millis};
use tokio::task::JoinSet;

use super::application::{Application, Sent};
use super::child::{say_done, say_up};
use super::failure::Result;
use super::part::Part;
use crate::record::Recorder;

/// Calls under way at a time.
const SENDERS: u64 = 4;
/// So many of the tasks sent last are changed: most older ones have ended.
const RECENT: usize = 30;

struct Sender<A> {
    application: Arc<A>,
    per_second: u64,
    batch: usize,
    tasks: TaskSubmitService,
    sent: Arc<AtomicU64>,
    dice: fastrand::Rng,
}

/// Sends until `quiet`, then returns once everything that it began has been accepted. Fails when a
/// sender panics.
pub(crate) async fn submit(
    part: &Part,
    recorder: &Recorder,
    application: Arc<impl Application>,
    (per_second, batch): (u64, usize),
    quiet: Arc<AtomicBool>,
) -> Result<()> {
    let store = part.place(recorder).await.store;
    say_up();
    let sent = Arc::new(AtomicU64::new(0));
    let mut senders = JoinSet::new();
    for n in 0..SENDERS {
        let sender = Sender {
            application: Arc::clone(&application),
            per_second: (per_second / SENDERS).max(1),
            batch,
            tasks: TaskSubmitService::new(Arc::clone(&store)),
            sent: Arc::clone(&sent),
            dice: part.dice(n),
        };
        senders.spawn(sender.run(Arc::clone(&quiet)));
    }
    let mut ticks = tokio::time::interval(millis(250));
    while !senders.is_empty() {
        tokio::select! {
            Some(ended) = senders.join_next() => ended?,
            _ = ticks.tick() => say_done(sent.load(Ordering::Relaxed)),
        }
    }
    say_done(sent.load(Ordering::Relaxed));
    store.close().await;
    Ok(())
}

impl<A: Application> Sender<A> {
    async fn run(mut self, quiet: Arc<AtomicBool>) {
        let mut known: Vec<(String, String)> = Vec::new();
        while !quiet.load(Ordering::Relaxed) {
            let size = self.dice.usize(1..=self.batch);
            let mut jobs = Vec::new();
            for _ in 0..size {
                match self.application.job(self.dice.u64(..)) {
                    Ok(job) => jobs.push(job),
                    Err(error) => eprintln!("no task: {error}"),
                }
            }
            let name = |job: &DelayQueueJob| (job.task_type().to_owned(), job.task_id().to_owned());
            known.extend(jobs.iter().map(name));
            self.send(jobs).await;
            self.sent.fetch_add(size as u64, Ordering::Relaxed);
            known.drain(..known.len().saturating_sub(RECENT));
            if self.dice.u32(0..3) == 0 {
                self.change(&known).await;
            }
            tokio::time::sleep(millis(size as u64 * 1_000 / self.per_second)).await;
        }
    }

    /// Sends the same again until it is accepted: no fault may lose a task.
    async fn send(&self, mut jobs: Vec<DelayQueueJob>) {
        while !jobs.is_empty() {
            let results = self.tasks.send_all(jobs.clone()).await;
            let pairs = jobs.into_iter().zip(results);
            jobs = pairs
                .filter_map(|(job, result)| {
                    result
                        .is_err_and(|error| is_repeated(&error))
                        .then_some(job)
                })
                .collect();
            if !jobs.is_empty() {
                tokio::time::sleep(millis(20)).await;
            }
        }
    }

    async fn change(&mut self, known: &[(String, String)]) {
        let number = self.dice.u64(..);
        let Some((task_type, id)) = self.dice.choice(known) else {
            return;
        };
        let change = Sent { task_type, id };
        // Whatever is answered is in the record; an unanswered change is not repeated.
        let _ = self.application.change(&self.tasks, change, number).await;
    }
}

/// A conflict, or a job that breaks a rule, is no better the next time.
fn is_repeated(error: &Error) -> bool {
    let is_final = matches!(
        error,
        Error::Conflict { .. }
            | Error::InvalidName { .. }
            | Error::InvalidInput { .. }
            | Error::LimitExceeded { .. }
    );
    if is_final {
        eprintln!("not sent: {error}");
    }
    !is_final
}
