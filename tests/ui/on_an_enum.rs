use delayq_plugin::*;

#[task_worker(type = "a")]
pub enum CancelOrder {}

fn main() {}
