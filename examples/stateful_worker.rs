//! A worker with a state of its own and an injected component: reminders that spare a shop the
//! flood.
//!
//! The state is this process's alone and is gone when it ends. What must last or be shared by all
//! instances belongs into a database, reached through a component.
#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

use delayq_plugin::{
    Component, Components, DelayQueueJob, DelayQueuePlugin, FromComponents, Json, MissingComponent,
    TaskContext, TaskError, TaskResult, TaskWorker, millis, seconds, task_worker,
};
use tokio::sync::mpsc::{Sender, channel};

/// How many reminders one shop gets.
const MOST: u32 = 2;

/// Stands in for a mail client.
struct Mailer {
    out: Sender<String>,
}

/// Built once, when the plugin starts; all attempts share it.
struct RemindShop {
    mailer: Component<Mailer>,
    sent: Mutex<HashMap<String, u32>>,
}

impl FromComponents for RemindShop {
    fn from_components(components: &Components) -> Result<Self, MissingComponent> {
        Ok(Self {
            mailer: Component::from_components(components)?,
            sent: Mutex::default(),
        })
    }
}

impl RemindShop {
    /// Counts this reminder; a lock is held for a moment only, never across an await.
    fn count(&self, shop: &str) -> u32 {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let count = sent.entry(shop.to_owned()).or_default();
        *count += 1;
        *count
    }
}

#[task_worker(type = "shop.remind", concurrency = 1)]
impl TaskWorker for RemindShop {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        let Json(shop) = Json::<String>::from_message(message.as_bytes())?;
        let mail = match self.count(&shop) {
            n @ 1..=MOST => format!("reminder {n} to {shop} about {}", cx.id()),
            _ => return Err(TaskError::dead(format!("{shop} has had {MOST} reminders"))),
        };
        self.mailer.out.send(mail).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (out, mut mails) = channel(8);
    let builder = DelayQueuePlugin::builder().url("memory:?durability=memory");
    let plugin = builder.component(Mailer { out }).start().await?;
    let tasks = plugin.submit_service();
    for (order, shop) in [(1, "berlin"), (2, "berlin"), (3, "berlin"), (4, "paris")] {
        let job = DelayQueueJob::new("shop.remind", shop)?.id(format!("order-{order}"));
        tasks.send(job.after(millis(order * 200))).await?;
    }
    for _ in 0..3 {
        println!("{}", mails.recv().await.ok_or("the worker is gone")?);
    }
    if let Some(task) = tasks.find("shop.remind", "order-3").await? {
        println!(
            "order-3 is {}: {}",
            task.state,
            task.history.last_error.unwrap_or_default()
        );
    }
    plugin.shutdown(seconds(1)).await;
    Ok(())
}
