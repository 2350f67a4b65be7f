use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel(_order: u64) -> TaskResult {
    Ok(())
}

fn main() {}
