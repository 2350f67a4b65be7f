use delayq_plugin::*;
#[derive(Default)]
struct Cancel;
#[task_worker(type = "order.cancel")]
impl TaskWorker for Cancel {
    async fn invoke(&self, message: &str, _cx: &TaskContext) -> TaskResult {
        let shared = std::rc::Rc::new(message.to_owned());
        tokio::task::yield_now().await;
        println!("{shared}");
        Ok(())
    }
}
fn main() {
}
