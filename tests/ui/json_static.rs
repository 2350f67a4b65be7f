use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
async fn cancel(Json(message): Json<&'static str>) -> TaskResult {
    println!("{message:?}");
    Ok(())
}

fn main() {}
