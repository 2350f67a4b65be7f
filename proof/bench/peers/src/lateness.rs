//! When tasks start: sent at a steady rate, or all due at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::Failure;
use crate::board::Board;
use crate::peer::Peer;
use crate::task::{BULK, IN_FLIGHT, Task};

/// Tasks are due so many ms after they are sent, spread evenly.
const DELAYS_MS: std::ops::RangeInclusive<u64> = 1_000..=5_000;
/// How often the sender wakes up; it then sends what has become due to be sent.
const TICK: Duration = Duration::from_millis(10);
/// From the first task of a herd that is sent to the moment when all are due.
const LEAD: Duration = Duration::from_secs(4);

/// Sends `rate` tasks a second, whether or not the peer keeps up, until they are `count`.
pub(crate) async fn measure(
    peer: Arc<dyn Peer>,
    rate: u32,
    count: usize,
    limit: Duration,
) -> Result<Value, Failure> {
    let board = Arc::new(Board::of(count));
    peer.work(Arc::clone(&board)).await?;
    let started = tokio::time::Instant::now();
    let gap = Duration::from_secs(1) / rate.max(1);
    let mut senders = JoinSet::new();
    for number in 0..count {
        let send_at = started + gap * u32::try_from(number)?;
        let now = tokio::time::Instant::now();
        if now < send_at {
            sleep_until(send_at.max(now + TICK)).await;
        }
        let delay = Duration::from_millis(fastrand::u64(DELAYS_MS));
        board.due_after(number, delay);
        let peer = Arc::clone(&peer);
        senders.spawn(async move { peer.submit(Task::new(number, delay)).await });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    board
        .wait(Duration::from_millis(*DELAYS_MS.end()) + limit)
        .await;
    Ok(json!({ "lateness_us": figures(&board, None) }))
}

/// Sends `count` tasks that are all due at one moment, a few seconds from now.
pub(crate) async fn herd(
    peer: Arc<dyn Peer>,
    count: usize,
    limit: Duration,
) -> Result<Value, Failure> {
    let board = Arc::new(Board::of(count));
    peer.work(Arc::clone(&board)).await?;
    let due = Instant::now() + LEAD;
    if peer.has_bulk() {
        for from in (0..count).step_by(BULK) {
            let numbers = from..count.min(from + BULK);
            let tasks = numbers.map(|number| due_at(&board, number, due));
            peer.submit_all(tasks.collect()).await?;
        }
    } else {
        herd_singly(&peer, &board, due).await?;
    }
    let is_in_time = Instant::now() < due;
    board
        .wait(due.saturating_duration_since(Instant::now()) + limit)
        .await;
    Ok(json!({ "herd": figures(&board, Some(is_in_time)) }))
}

async fn herd_singly(
    peer: &Arc<dyn Peer>,
    board: &Arc<Board>,
    due: Instant,
) -> Result<(), Failure> {
    let mut callers = JoinSet::new();
    for first in 0..IN_FLIGHT {
        let (peer, board) = (Arc::clone(peer), Arc::clone(board));
        callers.spawn(async move {
            for number in (first..board.count()).step_by(IN_FLIGHT) {
                peer.submit(due_at(&board, number, due)).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(())
}

fn due_at(board: &Board, number: usize, due: Instant) -> Task {
    let delay = due.saturating_duration_since(Instant::now());
    board.due_after(number, delay);
    Task::new(number, delay)
}

/// What the board tells of the tasks that have started; of a herd, whether all were sent before
/// they were due.
fn figures(board: &Board, sent_in_time: Option<bool>) -> Value {
    let lateness = board.lateness_us();
    let early = lateness.iter().filter(|us| **us < 0).count();
    let [p50, p90, p99] = [50, 90, 99].map(|percent| percentile(&lateness, percent));
    json!({
        "tasks": board.count(), "ran": board.ran(), "repeats": board.repeats(), "early": early,
        "min": lateness.first(), "p50": p50, "p90": p90, "p99": p99, "max": lateness.last(), "ended": board.why_ended(), "sent_in_time": sent_in_time,
    })
}

/// The least value that so many percent do not exceed.
fn percentile(sorted: &[i64], percent: usize) -> Option<i64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred: Vec<_> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), Some(50));
        assert_eq!(percentile(&hundred, 99), Some(99));
        assert_eq!(percentile(&[7], 50), Some(7));
        assert_eq!(percentile(&[], 50), None);
    }
}
