use delayq_plugin::*;

pub struct CancelOrder;

#[task_worker(type = "a")]
impl CancelOrder {
    pub async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

fn main() {}
