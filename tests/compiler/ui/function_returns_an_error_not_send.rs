use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
async fn cancel() -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

fn main() {}
