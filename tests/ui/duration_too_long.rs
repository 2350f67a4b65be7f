use delayq_plugin::*;

#[task_worker(type = "a", late_after = "90000h", on_late = drop)]
async fn cancel(message: &str) -> TaskResult {
    println!("{message}");
    Ok(())
}

fn main() {}
