use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel() -> Result<u64, TaskError> {
    Ok(7)
}

fn main() {}
