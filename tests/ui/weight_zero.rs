use delayq_plugin::*;

#[task_worker(type = "a", pool = "mail", weight = 0)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
