use delayq_plugin::*;

#[task_worker(type = "a", name = "my worker")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
