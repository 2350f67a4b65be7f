use delayq_plugin::*;

#[task_worker(type = "a", every = "0 0 31 2 *")]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
