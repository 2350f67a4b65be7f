use delayq_plugin::*;
#[task_worker(type = "a.*.b")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}
fn main() {}
