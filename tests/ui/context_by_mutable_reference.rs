use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel(_cx: &mut TaskContext) -> TaskResult {
    Ok(())
}

fn main() {}
