use delayq_plugin::*;

#[task_worker(type = "a", delivery = at-most-once)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
