use delayq_plugin::{TaskResult, task_worker};

#[task_worker(type = "a", upcast = from_older)]
async fn cancel() -> TaskResult {
    Ok(())
}

fn main() {}
