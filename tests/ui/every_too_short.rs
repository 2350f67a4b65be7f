use delayq_plugin::*;

#[task_worker(type = "a", every = "100ms")]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
