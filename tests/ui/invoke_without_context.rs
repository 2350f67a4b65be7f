use delayq_plugin::*;

#[derive(Default)]
struct CancelOrder;

#[task_worker(type = "order.cancel")]
impl TaskWorker for CancelOrder {
    async fn invoke(&self, message: &str) -> TaskResult {
        println!("{message}");
        Ok(())
    }
}

fn main() {}
