use delayq_plugin::*;
#[task_worker(type = "order.cancel")]
async fn cancel(Json(n): Json<String>) -> TaskResult {
    println!("{n}");
    Ok(())
}
fn main() {
    let order = String::new();
    let _ = cancel::job(order);
}
