use delayq_plugin::*;

#[task_worker(type = "a", retry = 5)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
