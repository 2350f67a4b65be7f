use delayq_plugin::*;

#[task_worker(type = "a", delivery = exactly_once)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
