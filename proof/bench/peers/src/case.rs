//! Submits, drain and memory.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Failure;
use crate::board::Board;
use crate::peer::Peer;
use crate::server::Server;
use crate::task::{BULK, IN_FLIGHT, Task};

/// The delay of tasks that are only sent.
const HOUR: Duration = Duration::from_hours(1);
/// Tasks whose memory is measured are due within so many seconds.
const SPREAD_S: Range<u64> = 3_600..36_000;
/// How long a server gets to free the buffers of a load.
const SETTLED: Duration = Duration::from_secs(2);
/// How often it is asked whether all tasks are settled.
const LOOK: Duration = Duration::from_millis(2);

/// Tasks a second of one caller that sends many in a call.
pub(crate) async fn submit_in_bulk(peer: Arc<dyn Peer>, count: usize) -> Result<Value, Failure> {
    if !peer.has_bulk() {
        return Ok(json!({ "unsupported": "no call for many" }));
    }
    let started = Instant::now();
    in_bulk(peer.as_ref(), count, || HOUR).await?;
    Ok(rate(count, started))
}

/// Tasks a second of many callers that each wait for their answer.
pub(crate) async fn submit_singly(peer: Arc<dyn Peer>, count: usize) -> Result<Value, Failure> {
    let started = Instant::now();
    singly(&peer, count, || HOUR).await?;
    Ok(rate(count, started))
}

/// Tasks a second that an empty worker runs and that are settled; all are there, and due, when it
/// starts.
pub(crate) async fn drain(
    peer: Arc<dyn Peer>,
    count: usize,
    limit: Duration,
) -> Result<Value, Failure> {
    fill(&peer, count, || Duration::ZERO).await?;
    let board = Arc::new(Board::of(count));
    let started = Instant::now();
    peer.work(Arc::clone(&board)).await?;
    let settled = async {
        let has_run = board.wait(limit).await;
        while has_run && peer.unsettled(count).await? > 0 {
            sleep(LOOK).await;
        }
        Ok::<_, Failure>(has_run)
    };
    if let Ok(true) = timeout(limit, settled).await.unwrap_or(Ok(false)) {
        return Ok(rate(count, started));
    }
    let left = peer.unsettled(count).await?;
    let why = board
        .why_ended()
        .map_or_else(String::new, |why| format!("; its worker ended: {why}"));
    let stopped = format!(
        "{} of {count} ran, {left} were not settled, in {limit:?}{why}",
        board.ran()
    );
    Ok(json!({ "stopped": stopped }))
}

/// Bytes of the server's memory a task.
pub(crate) async fn memory(
    peer: Arc<dyn Peer>,
    server: &Server,
    count: usize,
) -> Result<Value, Failure> {
    // What the first tasks make, such as connections, belongs to none.
    fill(&peer, BULK, || HOUR).await?;
    sleep(SETTLED).await;
    let before = server.memory().await?;
    fill(&peer, count, || {
        Duration::from_secs(fastrand::u64(SPREAD_S))
    })
    .await?;
    sleep(SETTLED).await;
    let grown = server.memory().await?.saturating_sub(before);
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = grown as f64 / count as f64;
    Ok(json!({ "bytes": bytes }))
}

/// Sends so many tasks the fastest way.
async fn fill(
    peer: &Arc<dyn Peer>,
    count: usize,
    delay: impl Fn() -> Duration,
) -> Result<(), Failure> {
    if peer.has_bulk() {
        return in_bulk(peer.as_ref(), count, delay).await;
    }
    singly(peer, count, delay).await
}

async fn in_bulk(
    peer: &dyn Peer,
    count: usize,
    delay: impl Fn() -> Duration,
) -> Result<(), Failure> {
    for from in (0..count).step_by(BULK) {
        let numbers = from..count.min(from + BULK);
        let tasks = numbers.map(|number| Task::new(number, delay()));
        peer.submit_all(tasks.collect()).await?;
    }
    Ok(())
}

async fn singly(
    peer: &Arc<dyn Peer>,
    count: usize,
    delay: impl Fn() -> Duration,
) -> Result<(), Failure> {
    let share = count.div_ceil(IN_FLIGHT);
    let mut callers = JoinSet::new();
    for from in (0..count).step_by(share) {
        let peer = Arc::clone(peer);
        let delays: Vec<_> = (from..count.min(from + share)).map(|_| delay()).collect();
        callers.spawn(async move {
            for (number, delay) in (from..).zip(delays) {
                peer.submit(Task::new(number, delay)).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
fn rate(count: usize, started: Instant) -> Value {
    json!({ "rate": count as f64 / started.elapsed().as_secs_f64() })
}
