use delayq_plugin::*;

#[task_worker(type = "a b", timeout = 30)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
