use delayq_plugin::*;

#[task_worker(type = "a")]
pub static CANCEL: u32 = 1;

fn main() {}
