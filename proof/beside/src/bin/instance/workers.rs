//! The workers. All do what the message says; they differ in the options of their types.
//!
//! | message | what happens |
//! |---|---|
//! | `fail` | the first attempt fails |
//! | `die` | fails for good, while the mood says so |
//! | `hold` | runs on, while the mood says so |
//! | `then ID` | sends a task `ID` of the type without trouble |
//! | any other | nothing |

use delayq_beside::{FAST, FORMER, HELD, HOT, ONCE, RETRIED, TICK, What};
use delayq_plugin::{Component, DelayQueueJob, TaskContext, TaskError, TaskResult, task_worker};

use crate::desk::Desk;

#[task_worker(type = "beside.fast", alias = "beside.former")]
async fn fast(message: &str, cx: &TaskContext, desk: Component<Desk>) -> TaskResult {
    perform(message, cx, &desk).await
}

#[task_worker(type = "beside.retried", retry(max = 4, base = "50ms", cap = "100ms"))]
async fn retried(message: &str, cx: &TaskContext, desk: Component<Desk>) -> TaskResult {
    perform(message, cx, &desk).await
}

#[task_worker(type = "beside.hot", shards = 3)]
async fn hot(message: &str, cx: &TaskContext, desk: Component<Desk>) -> TaskResult {
    perform(message, cx, &desk).await
}

#[task_worker(type = "beside.once", delivery = at_most_once)]
async fn once(message: &str, cx: &TaskContext, desk: Component<Desk>) -> TaskResult {
    perform(message, cx, &desk).await
}

#[task_worker(type = "beside.held", lock = "3s")]
async fn held(message: &str, cx: &TaskContext, desk: Component<Desk>) -> TaskResult {
    perform(message, cx, &desk).await
}

#[task_worker(type = "beside.tick", every = "1s", lock = "3s")]
async fn tick(cx: &TaskContext, desk: Component<Desk>) -> TaskResult {
    perform("tick", cx, &desk).await
}

async fn perform(message: &str, cx: &TaskContext, desk: &Desk) -> TaskResult {
    desk.note(message, cx, What::Started)?;
    let result = match message.split_once(' ') {
        None if message == "fail" && cx.attempt() == 1 => Err(TaskError::retry("asked to fail")),
        None if message == "die" && desk.mood().dies => Err(TaskError::dead("asked to die")),
        None if message == "hold" => {
            tokio::select! {
                () = desk.until_let_go() => {}
                () = cx.cancelled() => {
                    desk.note(message, cx, What::Stopped)?;
                    return Err(TaskError::retry("told to stop"));
                }
            }
            Ok(())
        }
        Some(("then", id)) => Ok(cx.then(DelayQueueJob::raw(FAST, "followed").id(id))?),
        _ => Ok(()),
    };
    let what = if result.is_ok() {
        What::Done
    } else {
        What::Failed
    };
    desk.note(message, cx, what)?;
    result
}

/// The names above are literals, as those of an application are.
pub(crate) fn names() -> [&'static str; 7] {
    [FAST, FORMER, RETRIED, HOT, ONCE, HELD, TICK]
}
