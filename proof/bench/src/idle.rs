//! What a process with nothing to do takes: commands, processor time, threads, connections.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::Failure;
use crate::bare_redis::SETTLED;
use crate::child::{Child, Role, told_to_end};
use crate::figure::{Figure, Goal};
use crate::load;
use crate::process;
use crate::stage::{Place, Site, Stage, end};
use crate::worker::Counter;

/// Scheduler threads of the process, however many types it serves.
const THREADS: usize = 4;

/// What was seen of an idle process.
#[derive(Clone, Copy, Debug)]
struct Idle {
    /// Commands a second and type that it sent.
    commands: f64,
    /// Its processor time, in percent of a core.
    cpu: f64,
    /// The server's processor time, in percent of a core.
    server_cpu: f64,
    threads: f64,
    connections: f64,
}

/// Processes that serve one type, ten and a thousand, watched one after the other. What must not
/// grow with the types has what was seen with ten as its goal.
pub(crate) async fn figures(stage: &Stage, span: Duration) -> Result<Vec<Figure>, Failure> {
    let one = watch(stage, 1, span).await?;
    let ten = watch(stage, 10, span).await?;
    let many = watch(stage, 1_000, span).await?;
    let (polls, share) = ("commands/s and type", "% of a core");
    let figures = [
        (
            "idle commands, one type",
            polls,
            Goal::AtMost(1.0),
            one.commands,
        ),
        (
            "idle commands, ten types",
            polls,
            Goal::AtMost(1.0),
            ten.commands,
        ),
        (
            "idle commands, 1,000 types",
            polls,
            Goal::AtMost(1.0),
            many.commands,
        ),
        ("idle processor time, ten types", share, Goal::None, ten.cpu),
        (
            "idle processor time, 1,000 types",
            share,
            Goal::None,
            many.cpu,
        ),
        (
            "idle processor time of the server, ten types",
            share,
            Goal::None,
            ten.server_cpu,
        ),
        (
            "idle processor time of the server, 1,000 types",
            share,
            Goal::None,
            many.server_cpu,
        ),
        ("threads, ten types", "threads", Goal::None, ten.threads),
        (
            "threads, 1,000 types",
            "threads",
            Goal::AtMost(ten.threads),
            many.threads,
        ),
        (
            "connections, ten types",
            "connections",
            Goal::None,
            ten.connections,
        ),
        (
            "connections, 1,000 types",
            "connections",
            Goal::AtMost(ten.connections),
            many.connections,
        ),
    ];
    let figure =
        |(name, unit, goal, sample)| Figure::of_one(Place::Redis, name, unit, goal, sample);
    Ok(figures.into_iter().map(figure).collect())
}

/// The process that is watched.
pub(crate) async fn instance(site: Site, types: usize) -> Result<(), Failure> {
    let worker = Counter::up_to(0);
    let plugin = site
        .plugin_of_types(&load::types(types), worker, |settings| {
            settings.threads(THREADS)
        })
        .await?;
    println!("up");
    told_to_end().await?;
    end(plugin).await;
    Ok(())
}

/// Watches a process that serves so many types, for twice `span`: the commands are counted in a
/// span of its own, because that is work for the server.
#[allow(clippy::cast_precision_loss, reason = "the counts are small")]
async fn watch(stage: &Stage, types: usize, span: Duration) -> Result<Idle, Failure> {
    let site = stage.site().await?;
    let mut child = Child::start(&Role::Idler { site, types })?;
    child.expect("up").await?;
    sleep(SETTLED).await;
    let (pid, redis) = (child.pid()?, stage.redis()?);
    let server = redis.pid().ok_or("the server runs")?;
    let started = Instant::now();
    let before = [process::cpu_time(pid)?, process::cpu_time(server)?];
    sleep(span).await;
    let after = [process::cpu_time(pid)?, process::cpu_time(server)?];
    let watched = started.elapsed();
    let share = |after: Duration, before| {
        100.0 * after.saturating_sub(before).as_secs_f64() / watched.as_secs_f64()
    };
    let sent = sent_by_clients(redis.port(), span).await?;
    let idle = Idle {
        commands: f64::from(sent.values().sum::<u32>()) / span.as_secs_f64() / types as f64,
        cpu: share(after[0], before[0]),
        server_cpu: share(after[1], before[1]),
        threads: process::threads(pid)? as f64,
        connections: process::connections(pid, redis.port())? as f64,
    };
    println!("    {types} types, {span:?}: {sent:?}, {idle:?}");
    child.end().await?;
    Ok(idle)
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
