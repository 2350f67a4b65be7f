use delayq_plugin::*;

#[task_worker(type = "a", queue = "x")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
