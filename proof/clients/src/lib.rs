//! What the programs share: they wait until an order was paid, and print how often.

use delayq_plugin::{TaskState, TaskSubmitService, millis};

/// Any error.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The URL of the database, the one argument.
///
/// # Panics
/// Without an argument.
#[must_use]
pub fn url() -> String {
    std::env::args().nth(1).expect("the URL of a database")
}

/// Waits until the task that pays an order is done.
///
/// # Errors
/// Those of the store.
pub async fn paid(tasks: &TaskSubmitService, order: &str) -> Result<(), AnyError> {
    loop {
        let found = tasks.find("order.pay", order).await?;
        if found.is_some_and(|task| task.state == TaskState::Done) {
            return Ok(());
        }
        tokio::time::sleep(millis(10)).await;
    }
}
