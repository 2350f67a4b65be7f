use delayq_plugin::*;
#[task_worker(type = "order.cancel", max = 5, backoff = fixed, base = "1s")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}
fn main() {}
