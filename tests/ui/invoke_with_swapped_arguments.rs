use delayq_plugin::*;

#[derive(Default)]
struct CancelOrder;

#[task_worker(type = "order.cancel")]
impl TaskWorker for CancelOrder {
    async fn invoke(&self, _cx: &TaskContext, _message: &str) -> TaskResult {
        Ok(())
    }
}

fn main() {}
