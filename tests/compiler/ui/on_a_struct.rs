use delayq_plugin::*;

#[task_worker(type = "a")]
#[derive(Default)]
pub struct CancelOrder;

fn main() {}
