use delayq_plugin::*;

struct CancelOrder;

#[task_worker(type = "order.cancel")]
impl TaskWorker for &'static CancelOrder {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

fn main() {}
