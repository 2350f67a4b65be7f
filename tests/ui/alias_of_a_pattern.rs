use delayq_plugin::{TaskResult, task_worker};

#[task_worker(type = "report.*", alias = "summary")]
async fn cancel() -> TaskResult {
    Ok(())
}

fn main() {}
