use delayq_plugin::*;

#[task_worker(type = "a", retry(base = "1h"))]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
