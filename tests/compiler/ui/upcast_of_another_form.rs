use delayq_plugin::{TaskResult, task_worker};

fn from_older(message: &str) -> String {
    message.to_owned()
}

#[task_worker(type = "a", version = 2, upcast = from_older)]
async fn cancel() -> TaskResult {
    Ok(())
}

fn main() {}
