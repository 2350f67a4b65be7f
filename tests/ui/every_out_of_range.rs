use delayq_plugin::*;

#[task_worker(type = "a", every = "0 25 * * *")]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
