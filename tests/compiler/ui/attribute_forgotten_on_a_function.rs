use delayq_plugin::*;

async fn cancel(Json(order): Json<u64>) -> TaskResult {
    println!("{order}");
    Ok(())
}

fn main() {
    let _ = DelayQueuePlugin::builder().worker("order.cancel", WorkerOptions::DEFAULT, cancel);
}
