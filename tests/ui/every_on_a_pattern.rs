use delayq_plugin::*;

#[task_worker(type = "a.*", every = "15m")]
async fn report() -> TaskResult {
    Ok(())
}

fn main() {}
