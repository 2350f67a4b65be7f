use delayq_plugin::*;

#[task_worker(type = "a", every = 15)]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
