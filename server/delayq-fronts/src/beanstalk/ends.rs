//! Ends of reservations.

use std::time::Duration;

use delayq_plugin::store::{AttemptEnd, SettleOutcome, Settlement};
use delayq_plugin::{Error, Result};
use tracing::{debug, warn};

use super::held::Held;
use super::hub::Hub;
use super::moves;
use super::past::{BURIED, MOVES, Past, RELEASED, TIMED_OUT};

/// How often an end whose answer was lost is repeated, which is safe.
const TRIES: u32 = 3;

/// A client has done the job; whether it still held it.
pub(super) async fn delete(hub: &Hub, held: &Held) -> Result<bool> {
    settle(hub, held, AttemptEnd::Done).await
}

/// A client gives the job back; whether it still held it.
pub(super) async fn release(hub: &Hub, held: &Held, pri: u32, delay: u32) -> Result<bool> {
    let past = Past {
        pri,
        delay,
        releases: held.past.releases + 1,
        ..held.past.clone()
    };
    put_back(hub, held, &past, RELEASED, delay).await
}

/// A client buries the job; whether it still held it.
pub(super) async fn bury(hub: &Hub, held: &Held, pri: u32) -> Result<bool> {
    let past = Past {
        pri,
        buries: held.past.buries + 1,
        ..held.past.clone()
    };
    let (error, succeeded) = (past.after(BURIED), Vec::new());
    settle(hub, held, AttemptEnd::Dead { error, succeeded }).await
}

/// The time to run of jobs is over.
pub(super) async fn time_out(hub: &Hub, late: Vec<Held>) {
    hub.counters.timeouts.add(late.len() as u64);
    for held in late {
        let past = Past {
            timeouts: held.past.timeouts + 1,
            ..held.past.clone()
        };
        if let Err(error) = put_back(hub, &held, &past, TIMED_OUT, 0).await {
            debug!(number = held.number, %error, "a job comes back when its lock expires");
        }
    }
}

/// The clients of jobs have left.
pub(super) async fn leave(hub: &Hub, left: Vec<Held>) {
    for held in left {
        if let Err(error) = put_back(hub, &held, &held.past, RELEASED, 0).await {
            debug!(number = held.number, %error, "a job comes back when its lock expires");
        }
    }
}

/// Puts a job back into the lane of its priority, due after `delay` seconds.
async fn put_back(hub: &Hub, held: &Held, past: &Past, why: &str, delay: u32) -> Result<bool> {
    let after = Duration::from_secs(delay.into());
    let lane = hub.lane(&held.tube, past.pri).await?;
    let succeeded = Vec::new();
    if lane == held.lane {
        let error = past.after(why);
        let end = AttemptEnd::Retry {
            after,
            error,
            succeeded,
        };
        let is_settled = settle(hub, held, end).await?;
        hub.lane_changed(&held.tube, &lane, after);
        return Ok(is_settled);
    }
    let error = past.after(MOVES);
    if !settle(hub, held, AttemptEnd::Dead { error, succeeded }).await? {
        return Ok(false);
    }
    let moved = moves::finish(hub, &held.tube, &held.lane, &held.lock.id).await;
    // Those who look after moves go on with it.
    if let Err(error) = moved {
        warn!(number = held.number, %error, "a job is on its way to another priority");
    }
    Ok(true)
}

async fn settle(hub: &Hub, held: &Held, end: AttemptEnd) -> Result<bool> {
    let settlement = Settlement::new(held.lock.clone(), end);
    for attempt in 1.. {
        let settled = hub.store.settle(&held.bucket, vec![settlement.clone()]);
        match settled.await {
            Err(Error::Indeterminate { .. }) if attempt < TRIES => {}
            Err(error) => return Err(error),
            Ok(outcomes) => return Ok(outcomes.first() == Some(&SettleOutcome::Settled)),
        }
    }
    Ok(false)
}
