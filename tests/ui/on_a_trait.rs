use delayq_plugin::*;

#[task_worker(type = "a")]
pub trait CancelOrder {
    async fn invoke(&self);
}

fn main() {}
