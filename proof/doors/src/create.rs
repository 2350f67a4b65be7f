//! Creating tasks: one a request, and many in a stream.

use std::time::Instant;

use tokio::task::JoinSet;

use crate::Failure;
use crate::connection::Connection;
use crate::server::Server;

/// The message of every task, 100 bytes.
pub(crate) const MESSAGE: [u8; 100] = [b'x'; 100];

/// Tasks a second, one a request, due in a day.
pub(crate) async fn single(
    server: &Server,
    connections: usize,
    tasks: usize,
) -> Result<f64, Failure> {
    fill(server, "created", "delay=1d", connections, tasks).await
}

/// Creates tasks of a type, one a request.
pub(crate) async fn fill(
    server: &Server,
    task_type: &str,
    query: &str,
    connections: usize,
    tasks: usize,
) -> Result<f64, Failure> {
    let mut clients = JoinSet::new();
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(server).await?);
    }
    let begin = Instant::now();
    for mut connection in open {
        let path = format!("{task_type}/tasks?{query}");
        let count = tasks / connections;
        clients.spawn(async move {
            for _ in 0..count {
                let answer = connection.post(&path, "", &MESSAGE).await?;
                if answer.status != 201 {
                    return Err(String::from_utf8_lossy(&answer.body).into());
                }
            }
            Ok::<_, Failure>(count)
        });
    }
    let mut done = 0;
    while let Some(client) = clients.join_next().await {
        done += client??;
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}

/// Tasks a second, as lines of some streams.
pub(crate) async fn bulk(server: &Server, streams: usize, tasks: usize) -> Result<f64, Failure> {
    let begin = Instant::now();
    let mut clients = JoinSet::new();
    for stream in 0..streams {
        let connection = Connection::open(server).await?;
        let count = tasks / streams;
        clients.spawn(async move {
            let message = String::from_utf8_lossy(&MESSAGE).into_owned();
            let parts = (0..count).step_by(500).map(move |first| {
                let mut part = Vec::new();
                for n in first..(first + 500).min(count) {
                    let line = format!(
                        "{{\"id\":\"{stream}-{n}\",\"message\":\"{message}\",\"delay\":86400000}}\n"
                    );
                    part.extend(line.into_bytes());
                }
                part
            });
            connection.stream("bulk/bulk", parts, count).await
        });
    }
    let mut done = 0;
    while let Some(client) = clients.join_next().await {
        done += client??;
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}
