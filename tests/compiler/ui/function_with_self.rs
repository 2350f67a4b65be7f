use delayq_plugin::*;

#[derive(Default)]
pub struct Shop;

impl Shop {
    #[task_worker(type = "order.cancel")]
    pub async fn cancel(&self, _message: &str) -> TaskResult {
        Ok(())
    }
}

fn main() {}
