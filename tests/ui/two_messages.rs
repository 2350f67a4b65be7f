use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel(_order: Json<u64>, _text: &str) -> TaskResult {
    Ok(())
}

fn main() {}
