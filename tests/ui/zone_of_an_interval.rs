use delayq_plugin::*;

#[task_worker(type = "a", every = "15m", zone = "Europe/Berlin")]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
