use delayq_plugin::*;

#[derive(Default)]
struct CancelOrder;

#[task_worker(type = "order.cancel")]
impl TaskWorker for CancelOrder {
    async fn invoke(_message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

fn main() {}
