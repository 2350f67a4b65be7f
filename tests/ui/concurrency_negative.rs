use delayq_plugin::*;

#[task_worker(type = "a", concurrency = -1)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
