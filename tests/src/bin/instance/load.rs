//! The load: tasks that the instance sends, again and again if need be, until it is told to be
//! quiet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delayq_plugin::{
    Clock, DelayQueueJob, Receipt, Result, SystemClock, TaskSubmitService, Timestamp, millis,
};
use delayq_tests::instance::log::{Log, What};
use delayq_tests::instance::plan::{Chore, Load};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long a sender waits after a failure before it sends the same again.
const PATIENCE: Duration = millis(20);

struct Sender {
    load: Load,
    name: String,
    tasks: TaskSubmitService,
    log: Arc<Log>,
}

/// A task on its way.
struct Parcel {
    task: String,
    job: DelayQueueJob,
    not_before: i64,
}

/// Starts the senders. They send until `quiet` is set and all that they began has been accepted.
pub(crate) fn start(
    load: &Load,
    name: &str,
    tasks: &TaskSubmitService,
    log: &Arc<Log>,
    quiet: &Arc<AtomicBool>,
) -> JoinSet<()> {
    let sender = |n| Sender {
        load: load.clone(),
        name: format!("{name}-{n}"),
        tasks: tasks.clone(),
        log: Arc::clone(log),
    };
    let senders = (0..load.senders).map(sender);
    senders
        .map(|sender| sender.run(Arc::clone(quiet)))
        .collect()
}

/// Logs that nothing more is sent.
pub(crate) async fn report_end(senders: JoinSet<()>, log: Arc<Log>) {
    senders.join_all().await;
    log.write(What::Quiet);
}

impl Sender {
    async fn run(self, quiet: Arc<AtomicBool>) {
        let mut sent = 0;
        while !quiet.load(Ordering::Relaxed) {
            let count = fastrand::usize(1..=self.load.batch);
            let mut parcels: Vec<_> = (sent..sent + count).map(|n| self.parcel(n)).collect();
            sent += count;
            while !parcels.is_empty() {
                parcels = self.send(parcels).await;
            }
            sleep(millis(self.load.pause_ms)).await;
        }
    }

    fn parcel(&self, n: usize) -> Parcel {
        let task_type = fastrand::choice(&self.load.types).expect("a load has types");
        let id = format!("{}-{n}", self.name);
        let delay = millis(fastrand::u64(0..=self.load.max_delay_ms));
        let job = Chore::random().job(task_type);
        Parcel {
            task: format!("{task_type}/{id}"),
            job: job.id(id).after(delay),
            not_before: SystemClock.now().plus(delay).as_millis(),
        }
    }

    /// Sends clones; returns what has to be sent again.
    async fn send(&self, parcels: Vec<Parcel>) -> Vec<Parcel> {
        let jobs = parcels.iter().map(|parcel| parcel.job.clone()).collect();
        let results = self.tasks.send_all(jobs).await;
        assert_eq!(results.len(), parcels.len(), "one result each");
        let mut again = Vec::new();
        for (parcel, result) in parcels.into_iter().zip(results) {
            again.extend(self.log_result(parcel, result));
        }
        if !again.is_empty() {
            sleep(PATIENCE).await;
        }
        again
    }

    fn log_result(&self, parcel: Parcel, result: Result<Receipt>) -> Option<Parcel> {
        match result {
            Ok(receipt) => {
                let due = receipt.due_at().map(Timestamp::as_millis);
                let (task, not_before) = (parcel.task, parcel.not_before);
                self.log.write(What::Sent {
                    task,
                    not_before,
                    due,
                });
                None
            }
            Err(error) => {
                self.log.write(What::Refused {
                    task: parcel.task.clone(),
                    transient: error.is_transient(),
                    error: error.to_string(),
                });
                Some(parcel)
            }
        }
    }
}
