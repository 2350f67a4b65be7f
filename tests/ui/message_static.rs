use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
async fn cancel(message: &'static str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
