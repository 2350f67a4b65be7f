use delayq_plugin::*;

#[task_worker(type = "order.cancel")]
pub async fn cancel<'a>(_message: &'a str) -> TaskResult {
    Ok(())
}

fn main() {}
