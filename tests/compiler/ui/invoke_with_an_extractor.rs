use delayq_plugin::*;

#[derive(Default)]
struct CancelOrder;

#[task_worker(type = "order.cancel")]
impl TaskWorker for CancelOrder {
    async fn invoke(&self, Json(order): Json<u64>, _cx: &TaskContext) -> TaskResult {
        println!("{order}");
        Ok(())
    }
}

fn main() {}
