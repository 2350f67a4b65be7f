//! The shop: its two workers, and what it remembers of this instance's work.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq_plugin::{Component, Json, TaskContext, TaskResult, task_worker};
use serde::{Deserialize, Serialize};

use crate::event::{Moment, Order};

/// The message of a cancellation.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Cancellation {
    pub(crate) order: Order,
    /// When the payment had to be there, on the clock of the shop.
    pub(crate) deadline: Moment,
}

/// Cancels an order whose payment did not come in time.
#[task_worker(type = "order.cancel", lock = "5s", retry(max = 10, base = "1s"))]
async fn cancel_order(
    Json(job): Json<Cancellation>,
    cx: &TaskContext,
    shop: Component<Shop>,
) -> TaskResult {
    let Order {
        number,
        customer,
        total,
        ..
    } = &job.order;
    let unpaid = format!("not paid within {}", job.order.timeout);
    let taken_over = if cx.attempt() > 1 {
        ", taken over from an instance that died"
    } else {
        ""
    };
    let late = cx.lateness();
    say(
        job.deadline.clock(),
        "cancelled",
        format!(
            "{number}  {total:>10}  {customer}: {unpaid} ({} ms late{taken_over})",
            late.as_millis()
        ),
    );
    shop.cancelled(late);
    Ok(())
}

/// The end of the day, which is a delayed task like any other.
#[task_worker(type = "shop.close")]
async fn close_shop() {}

/// One line of the log.
pub(crate) fn say(time: impl Display, what: &str, text: impl Display) {
    println!("{time:>8}  {what:<9}  {text}");
}

/// What this instance did. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shop {
    lateness: Arc<Mutex<Vec<Duration>>>,
}

impl Shop {
    fn cancelled(&self, late: Duration) {
        let lateness = self.lateness.lock();
        lateness.unwrap_or_else(PoisonError::into_inner).push(late);
    }

    /// The lateness of the cancellations that this instance ran, the least first.
    pub(crate) fn lateness(&self) -> Vec<Duration> {
        let lateness = self.lateness.lock();
        let mut sorted = lateness.unwrap_or_else(PoisonError::into_inner).clone();
        sorted.sort_unstable();
        sorted
    }
}
