use delayq_plugin::*;

#[task_worker(type = "a", on_late = skip, late_after = "10m")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
