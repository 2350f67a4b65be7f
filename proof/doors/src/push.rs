//! Pushes over HTTP to an echo beside the server.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::connection::Connection;
use crate::create::MESSAGE;
use crate::echo::Echo;
use crate::server::Server;
use crate::{Failure, create};

/// Pushes a second, from a backlog that is due.
pub(crate) async fn drain(server: &Server, tasks: usize) -> Result<f64, Failure> {
    let tasks = tasks / 64 * 64;
    create::fill(server, "pushed", "delay=0", 64, tasks).await?;
    let echo = Echo::start().await?;
    let begin = Instant::now();
    target(server, "pushed", &echo).await?;
    echo.received(tasks).await?;
    Ok(tasks as f64 / begin.elapsed().as_secs_f64())
}

/// Lateness at so many tasks a second, each due a second after it was sent.
pub(crate) async fn late(server: &Server, rate: usize, tasks: usize) -> Result<String, Failure> {
    let echo = Echo::start().await?;
    target(server, "pushed.late", &echo).await?;
    let mut sender = Connection::open(server).await?;
    let mut tick = tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate)?);
    for _ in 0..tasks {
        tick.tick().await;
        sender
            .post("pushed.late/tasks?delay=1s", "", &MESSAGE)
            .await?;
    }
    echo.received(tasks).await?;
    Ok(echo.lateness())
}

async fn target(server: &Server, task_type: &str, echo: &Echo) -> Result<(), Failure> {
    let url = format!("http://{}/", echo.address);
    let target = json!({"http": {"url": url}, "concurrency": 256});
    let mut connection = Connection::open(server).await?;
    let path = format!("{task_type}/target");
    let json = "content-type: application/json\r\n";
    let body = serde_json::to_vec(&target)?;
    let answer = connection.send("PUT", &path, json, &body).await?;
    if answer.status >= 300 {
        return Err(String::from_utf8_lossy(&answer.body).into());
    }
    Ok(())
}
