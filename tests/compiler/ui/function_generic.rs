use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel<T>(_order: Json<T>) -> TaskResult {
    Ok(())
}

fn main() {}
