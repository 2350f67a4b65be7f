use delayq_plugin::*;

use std::sync::Arc;

#[task_worker(type = "order.cancel")]
pub async fn cancel(_names: Arc<Vec<String>>) -> TaskResult {
    Ok(())
}

fn main() {}
