use delayq_plugin::*;

struct CancelOrder {
    _pool: String,
}

#[task_worker(type = "order.cancel")]
impl TaskWorker for CancelOrder {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

fn main() {}
