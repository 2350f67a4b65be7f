use delayq_plugin::*;
#[task_worker(type = "order.cancel")]
async fn cancel(message: &str) -> TaskResult {
    let shared = std::rc::Rc::new(message.to_owned());
    tokio::task::yield_now().await;
    println!("{shared}");
    Ok(())
}
fn main() {
}
