//! What clients cost that wait for nothing.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::Failure;
use crate::connection::Connection;
use crate::server::Server;

/// How long the server is watched.
const WATCHED: Duration = Duration::from_secs(20);

/// Memory and processor time of the server while so many clients wait.
pub(crate) async fn run(server: &Server, clients: usize) -> Result<String, Failure> {
    let (before, _) = server.usage()?;
    let mut waiting = JoinSet::new();
    for _ in 0..clients {
        let mut connection = Connection::open(server).await?;
        waiting.spawn(async move {
            while connection
                .post("idle/claim?wait=60s", "", b"")
                .await
                .is_ok()
            {}
        });
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (_, begin) = server.usage()?;
    tokio::time::sleep(WATCHED).await;
    let (memory, end) = server.usage()?;
    let share = (end - begin) / WATCHED.as_secs_f64() * 100.0;
    Ok(format!(
        "{} MiB more than before ({} MiB), {share:.1} % of a core, {} still wait",
        memory.saturating_sub(before) / 1_024,
        memory / 1_024,
        waiting.len()
    ))
}
