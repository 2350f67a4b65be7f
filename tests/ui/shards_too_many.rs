use delayq_plugin::*;

#[task_worker(type = "a", shards = 1_000)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
