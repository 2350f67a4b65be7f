use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
#[task_worker(type = "order.expire")]
pub async fn cancel(_message: &str) -> TaskResult {
    Ok(())
}

fn main() {}
