use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub fn cancel() -> impl Future<Output = TaskResult> {
    async { Ok(()) }
}

fn main() {}
