use delayq_plugin::*;

#[task_worker(type = "a", every = "0 0 9 * * *")]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
