use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
async fn cancel(&message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
