//! A shutdown lets a short report finish and gives a long one back; the next start goes on with it.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::{
    Component, DelayQueuePlugin, Json, StartError, TaskContext, TaskError, TaskResult, TaskState,
    millis, seconds, task_worker,
};
use tokio::sync::Mutex;
use tokio::time::sleep;

/// Pages written so far, by report. Stands in for files: it outlives the plugins of this example.
type Shelf = Arc<Mutex<HashMap<String, u32>>>;

/// Writes a page every 200 ms. Told to stop, it keeps what it has and gives the task back.
#[task_worker(type = "report.write")]
async fn write_report(
    Json(pages): Json<u32>,
    cx: &TaskContext,
    shelf: Component<Shelf>,
) -> TaskResult {
    let (id, attempt) = (cx.id().to_string(), cx.attempt());
    let first = shelf.lock().await.get(&id).copied().unwrap_or(0) + 1;
    println!("  {id}: attempt {attempt} begins at page {first} of {pages}");
    for page in first..=pages {
        tokio::select! {
            () = sleep(millis(200)) => shelf.lock().await.insert(id.clone(), page),
            () = cx.cancelled() => {
                println!("  {id}: told to stop at page {page}");
                return Err(TaskError::release(Duration::ZERO));
            }
        };
    }
    println!("  {id}: finished");
    Ok(())
}

async fn start(url: &str, shelf: &Shelf) -> Result<DelayQueuePlugin, StartError> {
    let builder = DelayQueuePlugin::builder().url(url);
    builder.component(Arc::clone(shelf)).start().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}/reports.sqlite", folder.path().display());
    let shelf = Shelf::default();

    println!("first start");
    let plugin = start(&url, &shelf).await?;
    let tasks = plugin.submit_service();
    tasks.send(write_report::job(&3)?.id("short")).await?;
    tasks.send(write_report::job(&10)?.id("long")).await?;
    sleep(millis(300)).await;
    println!("shutdown with a grace time of 1 s");
    plugin.shutdown(seconds(1)).await;
    for id in ["short", "long"] {
        let task = tasks.find(write_report::TASK_TYPE, id).await?;
        let task = task.ok_or("it was sent just now")?;
        println!("{id} is {}, attempts made: {}", task.state, task.attempt);
    }

    println!("second start");
    let plugin = start(&url, &shelf).await?;
    let is_done = |task: delayq_plugin::TaskInfo| task.state == TaskState::Done;
    while !tasks
        .find(write_report::TASK_TYPE, "long")
        .await?
        .is_some_and(is_done)
    {
        sleep(millis(50)).await;
    }
    plugin.shutdown(seconds(1)).await;
    Ok(())
}
