use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel() -> Result<(), String> {
    Ok(())
}

fn main() {}
