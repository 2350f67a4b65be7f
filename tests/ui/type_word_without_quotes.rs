use delayq_plugin::*;

#[task_worker(type = orders)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
