use delayq_plugin::*;

#[task_worker("order.cancel")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
