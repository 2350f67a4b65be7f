use delayq_plugin::*;

#[task_worker(type = "a", on_late = drop, late_after = "10m", late_spread = "30m")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
