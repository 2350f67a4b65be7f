use axum::Json;
use delayq_plugin::{TaskResult, task_worker};

mod axum {
    pub struct Json<T>(pub T);
}

#[derive(serde::Deserialize, serde::Serialize)]
struct Order {
    id: u64,
}

#[task_worker(type = "order.cancel")]
async fn cancel(Json(order): Json<Order>) -> TaskResult {
    println!("{}", order.id);
    Ok(())
}

fn main() {}
