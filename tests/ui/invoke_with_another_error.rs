use delayq_plugin::*;

use std::num::ParseIntError;

#[derive(Default)]
struct CancelOrder;

#[task_worker(type = "order.cancel")]
impl TaskWorker for CancelOrder {
    async fn invoke(&self, message: &str, _cx: &TaskContext) -> Result<(), ParseIntError> {
        let _order: u64 = message.parse()?;
        Ok(())
    }
}

fn main() {}
