use delayq_plugin::*;

#[task_worker(type = "a", zone = "Europe/Berlin")]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
