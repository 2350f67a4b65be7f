use delayq_plugin::Component as C;
use delayq_plugin::{TaskResult, task_worker};

struct Pool;

#[task_worker(type = "order.cancel")]
async fn cancel(_pool: C<Pool>) -> TaskResult {
    Ok(())
}

fn main() {}
