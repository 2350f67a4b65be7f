use std::cell::RefCell;

use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
async fn cancel(_prices: Component<RefCell<Vec<u64>>>) -> TaskResult {
    Ok(())
}

fn main() {}
