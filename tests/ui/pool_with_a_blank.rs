use delayq_plugin::*;

#[task_worker(type = "a", pool = "my mail")]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
