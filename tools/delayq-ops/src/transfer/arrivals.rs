//! Lines on their way into a store.

use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{Error, SubmitOutcome, TaskState, TaskSubmitService};

use super::line::Line;
use super::{DeadTasks, Rejected, TransferError, TransferFault, TransferReport};

/// Number of bytes of messages collected before they are sent.
const MAX_BYTES: usize = 4 << 20;

/// Collects lines and sends them in batches.
pub(super) struct Arrivals<'a> {
    tasks: &'a TaskSubmitService,
    dead: DeadTasks,
    waiting: Vec<Numbered>,
    bytes: usize,
    pub(super) report: TransferReport,
}

struct Numbered {
    number: u64,
    line: Line,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(tasks: &'a TaskSubmitService, dead: DeadTasks) -> Self {
        Self {
            tasks,
            dead,
            waiting: Vec::new(),
            bytes: 0,
            report: TransferReport::default(),
        }
    }

    pub(super) fn failed(&self, number: u64, fault: TransferFault) -> TransferError {
        TransferError::new(self.report.clone(), Some(number), fault)
    }

    /// Takes a line. Returns true if that sent a batch.
    pub(super) async fn take(&mut self, number: u64, line: Line) -> Result<bool, TransferError> {
        self.report.read += 1;
        if line.state == TaskState::Dead && self.dead == DeadTasks::LeaveOut {
            self.report.dead_left_out += 1;
            return Ok(false);
        }
        self.bytes += line.size();
        self.waiting.push(Numbered { number, line });
        let is_full = self.waiting.len() >= MAX_BATCH || self.bytes >= MAX_BYTES;
        if is_full {
            self.send().await?;
        }
        Ok(is_full)
    }

    /// Sends the collected tasks. If the store refuses a single task, that is noted; if the store
    /// fails, the transfer stops at the first line concerned.
    pub(super) async fn send(&mut self) -> Result<(), TransferError> {
        let now = self.tasks.clock().now();
        let (mut sent, mut tasks) = (Vec::new(), Vec::new());
        self.bytes = 0;
        for numbered in std::mem::take(&mut self.waiting) {
            match numbered.line.task(now) {
                Ok(task) => {
                    tasks.push(task);
                    sent.push(numbered);
                }
                Err(fault) => self.refuse(numbered, fault.to_string()),
            }
        }
        if tasks.is_empty() {
            return Ok(());
        }
        let outcomes = self.tasks.store().submit(tasks).await;
        let mut stopped = None;
        for (numbered, outcome) in sent.into_iter().zip(outcomes) {
            match outcome {
                Ok(SubmitOutcome::Accepted { .. }) => self.report.written += 1,
                Ok(SubmitOutcome::AlreadyExists { .. }) => self.report.existing += 1,
                Ok(SubmitOutcome::Conflict { state }) => {
                    self.refuse(numbered, format!("another task has its id and is {state}"));
                }
                Ok(_) => self.refuse(numbered, "the store gave an unknown answer".to_owned()),
                Err(error) if is_about_the_task(&error) => {
                    self.refuse(numbered, error.to_string());
                }
                Err(error) => stopped = stopped.or(Some((numbered.number, error))),
            }
        }
        stopped.map_or(Ok(()), |(number, error)| {
            Err(self.failed(number, error.into()))
        })
    }

    fn refuse(&mut self, numbered: Numbered, reason: String) {
        let Numbered { number, line } = numbered;
        self.report.refuse(Rejected {
            line: number,
            task_type: line.task_type,
            id: line.id,
            reason,
        });
    }
}

/// True if another task may still be accepted.
fn is_about_the_task(error: &Error) -> bool {
    matches!(
        error,
        Error::Conflict { .. }
            | Error::InvalidName { .. }
            | Error::InvalidInput { .. }
            | Error::LimitExceeded { .. }
            | Error::QueueFull { .. }
            | Error::Corrupt { .. }
    )
}
