use delayq_plugin::*;

#[task_worker(type = "order.cancel", retry(max = 5, timeout = "10s"))]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
