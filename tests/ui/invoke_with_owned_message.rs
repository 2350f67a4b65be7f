use delayq_plugin::*;

#[derive(Default)]
struct CancelOrder;

#[task_worker(type = "order.cancel")]
impl TaskWorker for CancelOrder {
    async fn invoke(&self, message: String, _cx: &TaskContext) -> TaskResult {
        drop(message);
        Ok(())
    }
}

fn main() {}
