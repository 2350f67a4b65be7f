use delayq_plugin::{TaskResult, task_worker};
use frontend::Component;

mod frontend {
    #[derive(Clone)]
    pub struct Component<T>(pub T);
}

#[task_worker(type = "order.cancel")]
async fn cancel(_pool: Component<String>) -> TaskResult {
    Ok(())
}

fn main() {}
