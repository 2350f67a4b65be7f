use delayq_plugin::*;

pub struct CancelOrder;

#[task_worker(type = "a")]
impl Drop for CancelOrder {
    fn drop(&mut self) {}
}

fn main() {}
