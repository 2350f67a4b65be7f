//! What delayq takes of a Redis: commands while nothing happens, and memory.

use std::collections::BTreeMap;
use std::time::Duration;

use delayq_plugin::{DelayQueueJob, millis};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::Failure;
use crate::bare_redis::{SETTLED, bytes_each};
use crate::load::{self, BULK, Message, TASK_TYPE, parts};
use crate::stage::{Stage, end};
use crate::worker::Counter;

/// Due times are spread over so many ms, from an hour on.
const DUE_MS: std::ops::Range<u64> = 3_600_000..36_000_000;

/// Commands a second and type that a process with so many types and no tasks sends.
///
/// They are counted as MONITOR shows them, which tells what a client sent from what a script ran; INFO
/// commandstats counts both.
pub(crate) async fn idle_commands(
    stage: &Stage,
    types: usize,
    span: Duration,
) -> Result<f64, Failure> {
    let plugin = stage
        .site()
        .await?
        .plugin_of_types(&load::types(types), Counter::up_to(0))
        .await?;
    sleep(SETTLED).await;
    let sent = sent_by_clients(stage.redis()?.port(), span).await?;
    end(plugin).await;
    println!("    {types} types, {span:?}: {sent:?}");
    let commands: u32 = sent.values().sum();
    Ok(f64::from(commands) / span.as_secs_f64() / f64::from(u32::try_from(types)?))
}

/// How often each command was sent in the next `span`.
async fn sent_by_clients(port: u16, span: Duration) -> Result<BTreeMap<String, u32>, Failure> {
    let mut connection = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
    connection.write_all(b"MONITOR\r\n").await?;
    let mut lines = connection.lines();
    // The answer to MONITOR itself.
    lines.next_line().await?;
    let mut sent = BTreeMap::new();
    let count = async {
        while let Some(line) = lines.next_line().await? {
            if let Some(command) = command_of_client(&line) {
                *sent.entry(command).or_default() += 1;
            }
        }
        Err::<(), Failure>("the server ended the MONITOR".into())
    };
    match timeout(span, count).await {
        Ok(Ok(())) | Err(_) => Ok(sent),
        Ok(Err(error)) => Err(error),
    }
}

/// The command in `+1700000000.123456 [0 127.0.0.1:60866] "evalsha" ..`, unless a script ran it.
fn command_of_client(line: &str) -> Option<String> {
    let (origin, rest) = line.split_once("] \"")?;
    let command = rest.split('"').next()?;
    (!origin.ends_with(" lua")).then(|| command.to_lowercase())
}

/// Bytes of Redis memory a task.
pub(crate) async fn memory(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let plugin = stage.site().await?.plugin(Counter::up_to(0)).await?;
    let mut redis = stage.bare_redis().await?;
    let tasks = plugin.submit_service();
    sleep(SETTLED).await;
    let before = redis.used_memory().await?;
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(|number| {
            let job = DelayQueueJob::new(TASK_TYPE, &Message::new(number))?;
            Ok(job.after(millis(fastrand::u64(DUE_MS))))
        });
        for result in tasks
            .send_all(jobs.collect::<Result<Vec<_>, Failure>>()?)
            .await
        {
            result?;
        }
    }
    // Buffers of connections and of the append-only file are freed first.
    sleep(SETTLED).await;
    let after = redis.used_memory().await?;
    end(plugin).await;
    Ok(bytes_each(after, before, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_runs_is_not_counted() {
        let client = r#"+1339518083.107412 [0 127.0.0.1:60866] "EVALSHA" "ab" "1""#;
        assert_eq!(command_of_client(client).as_deref(), Some("evalsha"));
        let script = r#"+1339518083.107412 [0 lua] "TIME""#;
        assert_eq!(command_of_client(script), None);
        assert_eq!(command_of_client("+OK"), None);
    }
}
