use delayq_plugin::*;

#[derive(Default)]
struct CancelOrder(u32);

#[task_worker(type = "order.cancel")]
impl TaskWorker for CancelOrder {
    async fn invoke(&mut self, _message: &str, _cx: &TaskContext) -> TaskResult {
        self.0 += 1;
        Ok(())
    }
}

fn main() {}
