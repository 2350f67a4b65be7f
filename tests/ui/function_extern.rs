use delayq_plugin::*;

#[task_worker(type = "a", blocking)]
pub extern "C" fn cancel()  {
    
}

fn main() {}
