//! Push notices at set times: one on time, one moved forward, one called off, one not worth sending
//! late.
#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::error::Error;

use delayq_plugin::{
    ChangeOutcome, Clock, Component, DelayQueuePlugin, Json, SystemClock, TaskContext, TaskResult,
    When, seconds, task_worker,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Sender, channel};

#[derive(Serialize, Deserialize)]
struct Notice {
    title: String,
}

/// A notice that is an hour late is not worth a push any more: it ends as expired.
#[task_worker(type = "notice.push", on_late = drop, late_after = "1h")]
async fn push(
    Json(notice): Json<Notice>,
    cx: &TaskContext,
    phones: Component<Sender<String>>,
) -> TaskResult {
    let lateness = cx.lateness().as_millis();
    phones
        .send(format!("{} ({lateness} ms late)", notice.title))
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (phones, mut pushed) = channel::<String>(8);
    let plugin = DelayQueuePlugin::builder()
        .url("memory:?durability=memory")
        .component(phones)
        .start()
        .await?;
    let tasks = plugin.submit_service();

    let now = SystemClock.now();
    let notices = [
        ("sale", "The sale begins", 1),
        ("concert", "The concert begins", 60),
        ("rain", "Take an umbrella", 2),
    ];
    for (id, title, in_seconds) in notices {
        let notice = Notice {
            title: title.to_owned(),
        };
        let due_at = now.plus(seconds(in_seconds));
        tasks.send(push::job(&notice)?.id(id).at(due_at)).await?;
        println!("{id}: {title:?} at {due_at}");
    }

    let sooner = When::At(now.plus(seconds(3)));
    match tasks.reschedule(push::TASK_TYPE, "concert", sooner).await? {
        ChangeOutcome::Changed { due_at } => println!("concert: moved to {due_at}"),
        too_late => println!("concert: {too_late:?}"),
    }
    let called_off = tasks.cancel(push::TASK_TYPE, "rain").await?;
    println!("rain: {called_off:?}");

    for _ in 0..2 {
        let line = pushed.recv().await.ok_or("the worker is gone")?;
        println!("pushed at {}: {line}", SystemClock.now());
    }
    plugin.shutdown(seconds(1)).await;
    Ok(())
}
