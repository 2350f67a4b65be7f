use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async unsafe fn cancel(_message: &str) -> TaskResult {
    Ok(())
}

fn main() {}
