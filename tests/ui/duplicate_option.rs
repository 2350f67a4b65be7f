use delayq_plugin::*;

#[task_worker(type = "a", lock = "30s", lock = "40s")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
