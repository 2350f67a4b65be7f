use delayq_plugin::*;

#[task_worker(type = "a", retry(jitter = 0.125))]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
