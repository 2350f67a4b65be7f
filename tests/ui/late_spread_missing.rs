use delayq_plugin::*;

#[task_worker(type = "a", on_late = spread, late_after = "10m")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
