use delayq_plugin::*;

#[task_worker(type = "a", delivery = at_most_once, fleet_concurrency = 2)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
