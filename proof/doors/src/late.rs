//! How late a waiting client has a task, at a steady rate.

use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::Failure;
use crate::connection::Connection;
use crate::create::MESSAGE;
use crate::server::Server;

/// Clients that wait.
const CLIENTS: usize = 8;

/// Lateness at so many tasks a second, each due a second after it was sent.
pub(crate) async fn run(server: &Server, rate: usize, tasks: usize) -> Result<String, Failure> {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let share = u64::try_from(tasks / CLIENTS)?;
        clients.spawn(client(Connection::open(server).await?, share));
    }
    let mut sender = Connection::open(server).await?;
    let mut tick = tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate)?);
    for _ in 0..tasks {
        tick.tick().await;
        sender.post("late/tasks?delay=1s", "", &MESSAGE).await?;
    }
    let (mut late, mut early) = (Histogram::<u64>::new(3)?, 0);
    while let Some(client) = clients.join_next().await {
        let (own, own_early) = client??;
        late.add(own)?;
        early += own_early;
    }
    let at = |quantile| late.value_at_quantile(quantile) as f64 / 1_000.0;
    Ok(format!(
        "p50 {:.1} ms, p99 {:.1} ms, largest {:.1} ms, early {early}",
        at(0.5),
        at(0.99),
        late.max() as f64 / 1_000.0
    ))
}

/// Takes so many tasks; how late each was, in microseconds, and how many were early.
async fn client(
    mut connection: Connection,
    count: u64,
) -> Result<(Histogram<u64>, usize), Failure> {
    let (mut late, mut early) = (Histogram::new(3)?, 0);
    while late.len() < count {
        let answer = connection.post("late/claim?wait=10s", "", b"").await?;
        let time = clock_gettime(ClockId::Realtime);
        let now = Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?);
        let claimed: Value = serde_json::from_slice(&answer.body)?;
        let Some(task) = claimed.pointer("/tasks/0") else {
            return Err("a task did not come".into());
        };
        let text = |name: &str| task.get(name).and_then(Value::as_str).unwrap_or_default();
        let due = task
            .get("due_at")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        let due = Duration::from_millis(due);
        early += usize::from(now < due);
        let after = now.saturating_sub(due).as_micros();
        late.record(u64::try_from(after)?.max(1))?;
        let done = format!("late/tasks/{}/done?lock={}", text("id"), text("lock"));
        connection.post(&done, "", b"").await?;
    }
    Ok((late, early))
}
