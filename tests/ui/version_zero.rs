use delayq_plugin::{TaskResult, task_worker};

#[task_worker(type = "a", version = 0)]
async fn cancel() -> TaskResult {
    Ok(())
}

fn main() {}
