use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel(_order: Json<impl Send>) -> TaskResult {
    Ok(())
}

fn main() {}
