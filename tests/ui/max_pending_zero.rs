use delayq_plugin::*;

#[task_worker(type = "a", max_pending = 0)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
