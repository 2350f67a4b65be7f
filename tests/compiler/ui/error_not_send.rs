use delayq_plugin::*;

fn pay() -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

#[task_worker(type = "order.cancel")]
async fn cancel() -> TaskResult {
    pay()?;
    Ok(())
}

fn main() {}
