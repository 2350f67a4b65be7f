use delayq_plugin::*;

#[task_worker(type = "a", retry(max_attempts = 3))]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
