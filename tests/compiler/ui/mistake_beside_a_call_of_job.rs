use delayq_plugin::*;

#[task_worker(type = "report.*", timeout = 30)]
async fn report(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn job() -> Result<DelayQueueJob> {
    report::job("report.daily", "today")
}

const _: fn() -> Result<DelayQueueJob> = job;

fn main() {}
