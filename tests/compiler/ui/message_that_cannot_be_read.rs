use delayq_plugin::*;

pub struct Order;

#[task_worker(type = "order.cancel")]
pub async fn cancel(_order: Json<Order>) -> TaskResult {
    Ok(())
}

fn main() {}
