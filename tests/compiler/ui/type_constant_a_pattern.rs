use delayq_plugin::*;

const REPORTS: &str = "report.*";

#[task_worker(type = REPORTS)]
async fn report(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
