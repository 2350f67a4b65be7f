use delayq_plugin::*;

#[task_worker(type = "a", every = "daily")]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
