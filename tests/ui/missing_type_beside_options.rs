use delayq_plugin::*;

#[task_worker(timeout = "30s")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
