use delayq_plugin::*;

#[task_worker(type = "a", retry(cap = "2 months"))]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
