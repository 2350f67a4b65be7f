use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel(_message: &String) -> TaskResult {
    Ok(())
}

fn main() {}
