use delayq_plugin::*;

#[task_worker(type = "a", every = "0 9 * * *", zone = "Berlin")]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
