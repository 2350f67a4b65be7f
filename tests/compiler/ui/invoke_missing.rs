use delayq_plugin::*;

#[derive(Default)]
struct CancelOrder;

#[task_worker(type = "order.cancel")]
impl TaskWorker for CancelOrder {

}

fn main() {}
