use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
async fn cancel(_cx: &'static TaskContext) -> TaskResult {
    Ok(())
}

fn main() {}
