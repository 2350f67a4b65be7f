//! What is sent: how much of it, and what it looks like.

use std::borrow::Cow;
use std::time::Duration;

use delayq_plugin::{DelayQueueJob, Error, TaskId, hours};
use serde::{Deserialize, Serialize};

/// The type of all tasks, where there is one.
pub(crate) const TASK_TYPE: &str = "bench.task";
/// Bytes of a message as JSON.
pub(crate) const MESSAGE_BYTES: usize = 200;
/// Tasks of one `send_all`.
pub(crate) const BULK: usize = 1_000;
/// Callers that each wait for their own `send`.
pub(crate) const IN_FLIGHT: usize = 64;
/// Tasks of one step of a bare script: as many as delayq takes in one.
pub(crate) const STEP: usize = 128;

/// How much is measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Size {
    /// Rounds that count, after one that warms up.
    pub(crate) rounds: usize,
    /// Tasks of a round in bulk.
    pub(crate) bulk: usize,
    /// Tasks of a round of single ones.
    pub(crate) single: usize,
    /// Tasks of a round of single ones by one caller.
    pub(crate) alone: usize,
    /// Tasks of a round of draining.
    pub(crate) drain: usize,
    /// Tasks whose memory is measured.
    pub(crate) memory: usize,
    /// Tasks that are due at once, and tasks in a file that is opened after a kill.
    pub(crate) herd: usize,
    /// Tasks that are sent while the handler sleeps.
    pub(crate) sooner: usize,
    /// How long tasks are sent when lateness is measured, and how long an idle process is watched.
    pub(crate) span: Duration,
}

impl Size {
    pub(crate) const FULL: Self = Self {
        rounds: 5,
        bulk: 200_000,
        single: 100_000,
        alone: 20_000,
        drain: 100_000,
        memory: 100_000,
        herd: 1_000_000,
        sooner: 200,
        span: Duration::from_secs(30),
    };

    /// Each commit waits for a disk.
    pub(crate) const POSTGRES: Self = Self {
        single: 20_000,
        ..Self::FULL
    };

    /// Large enough to see that all works; the figures vary a lot.
    pub(crate) const QUICK: Self = Self {
        rounds: 2,
        bulk: 20_000,
        single: 10_000,
        alone: 2_000,
        drain: 10_000,
        // As many as in full: a hash table takes a share that depends on its size.
        memory: 100_000,
        herd: 100_000,
        sooner: 20,
        span: Duration::from_secs(4),
    };
}

/// A message of exactly [`MESSAGE_BYTES`] as JSON, such as a shop would send.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    order: String,
    customer: String,
    reason: Cow<'static, str>,
    note: Cow<'static, str>,
}

impl Message {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            order: format!("order-{:010}", number % 10_000_000_000),
            customer: format!("customer-{:08}", number % 100_000_000),
            reason: "the payment did not arrive in time".into(),
            note: "goods reserved in warehouse 17, shelf 120; release them, then write to the customers."
                .into(),
        }
    }
}

/// A job that is far from due.
pub(crate) fn later(number: usize) -> Result<DelayQueueJob, Error> {
    Ok(DelayQueueJob::new(TASK_TYPE, &Message::new(number))?.after(hours(1)))
}

/// The types of a process that serves so many.
pub(crate) fn types(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{TASK_TYPE}.{number}"))
        .collect()
}

/// Who gives tasks their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Nobody: they are generated, 26 characters.
    Generated,
    /// The caller: 16 bytes.
    Own,
}

impl Ids {
    pub(crate) fn id(self, number: usize) -> Result<TaskId, Error> {
        match self {
            Self::Generated => Ok(TaskId::generate()),
            Self::Own => TaskId::new(format!("order-{number:010}")),
        }
    }
}

/// `from..to` in parts of at most `size`.
pub(crate) fn parts(count: usize, size: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..count)
        .step_by(size)
        .map(move |from| from..count.min(from + size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_length_that_the_report_says() {
        for number in [0, 7, 199_999] {
            let json = serde_json::to_vec(&Message::new(number)).unwrap();
            assert_eq!(
                json.len(),
                MESSAGE_BYTES,
                "{}",
                String::from_utf8_lossy(&json)
            );
        }
    }

    #[test]
    fn ids_have_the_lengths_that_the_report_says() {
        for number in [0, 199_999] {
            assert_eq!(Ids::Own.id(number).unwrap().as_str().len(), 16);
            assert_eq!(Ids::Generated.id(number).unwrap().as_str().len(), 26);
        }
    }

    #[test]
    fn parts_cover_all_and_overlap_nowhere() {
        let parts: Vec<_> = parts(2_500, 1_000).collect();
        assert_eq!(parts, [0..1_000, 1_000..2_000, 2_000..2_500]);
    }
}
