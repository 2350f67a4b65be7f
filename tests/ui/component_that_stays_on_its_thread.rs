use std::rc::Rc;

use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
async fn cancel(_prices: Component<Rc<Vec<u64>>>) -> TaskResult {
    Ok(())
}

fn main() {}
