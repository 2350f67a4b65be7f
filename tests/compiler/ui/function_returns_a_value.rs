use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel() -> u64 {
    7
}

fn main() {}
