//! Records of ended tasks: those of hot, and of the tasks that ended in cold.

use delayq_core::history::{EndPosition, EndsStatus, LifeOutcome, MAX_ENDS, WaitingEnd};
use delayq_core::{Clock, Result, SystemClock};

use crate::parts::Parts;

/// Before a position of hot, and before one of cold.
const PLACES: [&str; 2] = ["hot ", "cold "];

fn placed(place: &str, mut end: WaitingEnd) -> WaitingEnd {
    end.position = EndPosition::new(format!("{place}{}", end.position));
    end
}

/// The oldest records of both stores. What cold has as done was moved and goes on in hot: such
/// records are dropped.
pub(crate) async fn ends(parts: &Parts, limit: usize) -> Result<Vec<WaitingEnd>> {
    let limit = limit.min(MAX_ENDS);
    // Those of hot are shipped also while cold is away.
    let of_cold = of_cold(parts, limit).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "the records of cold are shipped later");
        Seen::default()
    });
    let [hot, cold] = PLACES;
    let of_hot = parts.hot.ends(limit).await?.into_iter();
    let mut all: Vec<WaitingEnd> = of_hot.map(|end| placed(hot, end)).collect();
    all.extend(of_cold.ends.into_iter().map(|mut end| {
        end.life.due_at = end.life.due_at.plus(parts.lead());
        placed(cold, end)
    }));
    all.sort_by_key(|end| end.life.ended_at);
    all.truncate(limit);
    Ok(all)
}

/// What was seen of the records of cold.
#[derive(Debug, Default)]
struct Seen {
    /// The oldest ones, without those of moves.
    ends: Vec<WaitingEnd>,
    /// How many others were seen: those of moves, which are dropped.
    moves: u64,
}

/// The oldest records of cold, without those of moves, which are dropped. For as long as a call may
/// take: more of them may come than go.
async fn of_cold(parts: &Parts, limit: usize) -> Result<Seen> {
    let end = SystemClock.elapsed() + parts.options.patience;
    let mut seen = Seen::default();
    loop {
        let waiting = parts.cold.ends(limit).await?;
        let (moves, ends): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|end| end.life.outcome == LifeOutcome::Done);
        let moves: Vec<_> = moves.into_iter().map(|end| end.position).collect();
        (seen.ends, seen.moves) = (ends, seen.moves + moves.len() as u64);
        let is_last = moves.is_empty() || SystemClock.elapsed() >= end;
        if is_last || parts.cold.remove_ends(&moves).await? == 0 {
            return Ok(seen);
        }
    }
}

/// Removes records, each where it is.
pub(crate) async fn remove(parts: &Parts, positions: &[EndPosition]) -> Result<u64> {
    let of = |place: &str| -> Vec<EndPosition> {
        let own = positions.iter();
        let own = own.filter_map(|position| position.as_str().strip_prefix(place));
        own.map(EndPosition::new).collect()
    };
    let [hot, cold] = PLACES.map(of);
    let mut removed = 0;
    if !hot.is_empty() {
        removed += parts.hot.remove_ends(&hot).await?;
    }
    if cold.is_empty() {
        return Ok(removed);
    }
    match parts.cold.remove_ends(&cold).await {
        Ok(count) => removed += count,
        // What stays is shipped again, which changes nothing. Those of hot go on meanwhile.
        Err(error) if hot.is_empty() => return Err(error),
        Err(_) => {}
    }
    Ok(removed)
}

/// The records of both stores, without those of moves, which are dropped; of hot alone while cold
/// is away.
pub(crate) async fn status(parts: &Parts) -> Result<EndsStatus> {
    let mut sum = parts.hot.ends_status().await?;
    let Ok(mut cold) = parts.cold.ends_status().await else {
        return Ok(sum);
    };
    if cold.waiting > 0 {
        // Those that cannot be looked at count as they are.
        let seen = of_cold(parts, MAX_ENDS).await.unwrap_or_default();
        let ends = seen.ends.len() as u64;
        let unseen = cold.waiting.saturating_sub(ends + seen.moves);
        cold.waiting = ends + unseen;
        if unseen == 0 {
            cold.oldest = seen.ends.iter().map(|end| end.life.ended_at).min();
        }
    }
    sum.waiting += cold.waiting;
    sum.oldest = sum.oldest.into_iter().chain(cold.oldest).min();
    sum.bytes += cold.bytes;
    sum.limit += cold.limit;
    sum.lost += cold.lost;
    Ok(sum)
}
