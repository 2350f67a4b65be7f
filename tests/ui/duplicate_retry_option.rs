use delayq_plugin::*;

#[task_worker(type = "a", retry(max = 3, max = 4))]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
