use delayq_plugin::{TaskResult, task_worker};

#[task_worker(type = "a", alias = b)]
async fn cancel() -> TaskResult {
    Ok(())
}

fn main() {}
