//! Claiming tasks that are due, and settling them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::server::Server;
use crate::{Failure, create};

/// What a client asks for where it takes one task at a time.
const BYTES: &str = "accept: application/octet-stream\r\n";

/// Tasks a second, from a backlog that is due, by clients that each claim up to `limit` at once.
pub(crate) async fn drain(
    server: &Server,
    clients: usize,
    limit: usize,
    tasks: usize,
) -> Result<f64, Failure> {
    let task_type = format!("drain.{limit}");
    let tasks = tasks / 64 * 64;
    create::fill(server, &task_type, "delay=0", 64, tasks).await?;
    let left = Arc::new(AtomicUsize::new(tasks));
    let mut open = JoinSet::new();
    let begin = Instant::now();
    for _ in 0..clients {
        let connection = Connection::open(server).await?;
        let (task_type, left) = (task_type.clone(), Arc::clone(&left));
        open.spawn(async move {
            if limit == 1 {
                one_by_one(connection, &task_type, &left).await
            } else {
                in_batches(connection, &task_type, limit, &left).await
            }
        });
    }
    while let Some(client) = open.join_next().await {
        client??;
    }
    Ok(tasks as f64 / begin.elapsed().as_secs_f64())
}

async fn one_by_one(
    mut connection: Connection,
    task_type: &str,
    left: &AtomicUsize,
) -> Result<(), Failure> {
    let claim = format!("{task_type}/claim?wait=500");
    while left.load(Ordering::Relaxed) > 0 {
        let Some((id, lock)) = connection.post(&claim, BYTES, b"").await?.task else {
            continue;
        };
        let done = format!("{task_type}/tasks/{id}/done?lock={lock}");
        let answer = connection.post(&done, "", b"").await?;
        if answer.status != 200 {
            return Err(String::from_utf8_lossy(&answer.body).into());
        }
        left.fetch_sub(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn in_batches(
    mut connection: Connection,
    task_type: &str,
    limit: usize,
    left: &AtomicUsize,
) -> Result<(), Failure> {
    let claim = format!("{task_type}/claim?wait=500&limit={limit}");
    let settle = format!("{task_type}/settle");
    while left.load(Ordering::Relaxed) > 0 {
        let answer = connection.post(&claim, "", b"").await?;
        let claimed: Value = serde_json::from_slice(&answer.body)?;
        let tasks = claimed.get("tasks").and_then(Value::as_array);
        let ends: Vec<_> = tasks
            .into_iter()
            .flatten()
            .map(|task| json!({"id": task.get("id"), "lock": task.get("lock"), "end": "done"}))
            .collect();
        if ends.is_empty() {
            continue;
        }
        let body = serde_json::to_vec(&ends)?;
        let settled = connection.post(&settle, "", &body).await?;
        let settled: Vec<Value> = serde_json::from_slice(&settled.body)?;
        let outcome = |one: &&Value| one.get("outcome").and_then(Value::as_str) == Some("settled");
        left.fetch_sub(settled.iter().filter(outcome).count(), Ordering::Relaxed);
    }
    Ok(())
}
