use delayq_plugin::*;

#[task_worker(type = "a", lock = "500ms")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
