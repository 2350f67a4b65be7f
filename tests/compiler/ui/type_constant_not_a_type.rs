use delayq_plugin::*;

const ORDER_CANCEL: &str = "order cancel";

#[task_worker(type = ORDER_CANCEL)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
