//! What a worker is to do with a task: the message.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use delayq_plugin::{DelayQueueJob, Result, TaskContext, TaskError, TaskResult, millis};
use serde::{Deserialize, Serialize};

use crate::record::digest;

/// Worker threads of a process's runtime.
pub(crate) const THREADS: usize = 2;

/// A message: what to do, and bytes that only have to arrive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) body: TaskBody,
    #[serde(default)]
    pub(crate) padding: String,
}

/// What to do. The misdeeds are done in the first attempt only; later ones succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskBody {
    /// Succeed after so many milliseconds.
    Work(u64),
    /// Succeed, fail or give the task back after so many milliseconds, as chance will have it.
    Moody(u64),
    /// Send a task of the same type from within the process, and succeed.
    Send,
    /// Panic.
    Panic,
    /// Block the thread for so many milliseconds.
    Block(u64),
    /// Block every thread of the application's runtime for so many milliseconds.
    BlockRuntime(u64),
    /// Never return: the time limit ends it.
    Hang,
    /// End the process.
    Abort,
}

impl TaskBody {
    /// Mostly quick ones, some that fail, a few that outlast a lock.
    pub(crate) fn random(dice: &mut fastrand::Rng, lock_ms: u64) -> Self {
        match dice.u32(0..1_000) {
            0..5 => Self::Work(lock_ms + lock_ms / 2),
            5..55 => Self::Work(dice.u64(50..300)),
            55..255 => Self::Moody(dice.u64(0..20)),
            _ => Self::Work(dice.u64(0..10)),
        }
    }

    /// Quick ones, some that fail.
    pub(crate) fn brief(dice: &mut fastrand::Rng) -> Self {
        match dice.u32(0..100) {
            0..5 => Self::Work(dice.u64(20..60)),
            5..15 => Self::Moody(dice.u64(0..5)),
            _ => Self::Work(dice.u64(0..5)),
        }
    }

    /// A job of this type to do it, with some padding, now and then more than fits into a row.
    pub(crate) fn job(self, task_type: &str, dice: &mut fastrand::Rng) -> Result<DelayQueueJob> {
        let length = match dice.u32(0..100) {
            0 => dice.usize(2_000..20_000),
            _ => dice.usize(0..200),
        };
        let padding = std::iter::repeat_with(|| dice.alphanumeric())
            .take(length)
            .collect();
        DelayQueueJob::new(
            task_type,
            &Message {
                body: self,
                padding,
            },
        )
    }

    /// Does it.
    pub(crate) async fn perform(self, cx: &TaskContext) -> TaskResult {
        match self {
            Self::Work(ms) => tokio::time::sleep(millis(ms)).await,
            Self::Moody(ms) => {
                tokio::time::sleep(millis(ms)).await;
                return mood(cx);
            }
            // Its worker has done it: a task body knows of no store.
            Self::Send => {}
            misdeed if cx.attempt() == 1 => misdeed.misbehave().await,
            _ => {}
        }
        Ok(())
    }

    async fn misbehave(self) {
        match self {
            Self::Panic => panic!("told to panic"),
            Self::Block(ms) => block(millis(ms)),
            Self::BlockRuntime(ms) => block_runtime(millis(ms)).await,
            Self::Hang => std::future::pending().await,
            Self::Abort => std::process::abort(),
            Self::Work(_) | Self::Moody(_) | Self::Send => {}
        }
    }
}

/// Another one in each attempt, and after each release.
fn mood(cx: &TaskContext) -> TaskResult {
    let seed = digest(cx.id().as_str().as_bytes()) ^ cx.fence();
    match fastrand::Rng::with_seed(seed).u32(0..10) {
        0..3 => Err(TaskError::retry("in a mood")),
        3..6 => Err(TaskError::release(millis(20))),
        _ => Ok(()),
    }
}

/// Waits on this very thread.
fn block(span: Duration) {
    let (_silent, nothing): (Sender<()>, _) = channel();
    // A time-out is all that can come.
    let _ = nothing.recv_timeout(span);
}

/// Blocks all threads of this runtime. The barrier proves that each of them has one of the tasks.
async fn block_runtime(span: Duration) {
    let together = Arc::new(Barrier::new(THREADS));
    let one = || {
        let together = Arc::clone(&together);
        tokio::spawn(async move {
            together.wait();
            block(span);
        })
    };
    let all: Vec<_> = std::iter::repeat_with(one).take(THREADS).collect();
    for one in all {
        // A blocked task ends in no other way.
        let _ = one.await;
    }
}
