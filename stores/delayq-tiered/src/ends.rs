//! Records of ended tasks: those of hot, and of the tasks that ended in cold.

use delayq_core::Result;
use delayq_core::history::{EndPosition, EndsStatus, LifeOutcome, MAX_ENDS, WaitingEnd};

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
        Vec::new()
    });
    let [hot, cold] = PLACES;
    let of_hot = parts.hot.ends(limit).await?.into_iter();
    let mut all: Vec<WaitingEnd> = of_hot.map(|end| placed(hot, end)).collect();
    all.extend(of_cold.into_iter().map(|mut end| {
        end.life.due_at = end.life.due_at.plus(parts.lead());
        placed(cold, end)
    }));
    all.sort_by_key(|end| end.life.ended_at);
    all.truncate(limit);
    Ok(all)
}

/// The oldest records of cold, without those of moves, which are dropped.
async fn of_cold(parts: &Parts, limit: usize) -> Result<Vec<WaitingEnd>> {
    loop {
        let waiting = parts.cold.ends(limit).await?;
        let (moves, ends): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|end| end.life.outcome == LifeOutcome::Done);
        let moves: Vec<_> = moves.into_iter().map(|end| end.position).collect();
        if moves.is_empty() || !ends.is_empty() {
            return Ok(ends);
        }
        if parts.cold.remove_ends(&moves).await? == 0 {
            return Ok(ends);
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

/// The records of both stores; of hot alone while cold is away. Moves that wait to be dropped
/// count, too.
pub(crate) async fn status(parts: &Parts) -> Result<EndsStatus> {
    let mut sum = parts.hot.ends_status().await?;
    let Ok(cold) = parts.cold.ends_status().await else {
        return Ok(sum);
    };
    sum.waiting += cold.waiting;
    sum.oldest = sum.oldest.into_iter().chain(cold.oldest).min();
    sum.bytes += cold.bytes;
    sum.limit += cold.limit;
    sum.lost += cold.lost;
    Ok(sum)
}
