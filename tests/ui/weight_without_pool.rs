use delayq_plugin::*;

#[task_worker(type = "a", weight = 8)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
