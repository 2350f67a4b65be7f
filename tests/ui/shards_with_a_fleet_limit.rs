use delayq_plugin::*;

#[task_worker(type = "a", fleet_rate = "100/s", shards = 4)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
