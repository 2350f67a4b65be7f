use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
fn cancel(_message: &str) -> TaskResult {
    Ok(())
}

fn main() {}
