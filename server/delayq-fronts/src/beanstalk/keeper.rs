//! Background work: ends times to run, extends locks, serves waiting clients, and completes moves
//! that a lost server left behind.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::store::{Bucket, Wakeup};
use delayq_plugin::{Error, Lock, Result};
use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{debug, warn};

use super::claims::{LEASE, POLL, reserve};
use super::hub::Hub;
use super::jobs;
use super::moves;
use super::tube::{Lane, TubeName};

/// How often locks are extended.
const EXTEND: Duration = Duration::from_secs(2);
/// The number of lanes whose locks are extended concurrently.
const AT_A_TIME: usize = 64;
/// How often abandoned moves and empty lanes are looked for.
const TIDY: Duration = Duration::from_secs(15);
/// How long a lane must be empty before it is dropped.
const EMPTY: Duration = Duration::from_mins(1);

/// Runs all background work; never returns.
pub(super) async fn run(hub: &Hub) {
    tokio::join!(
        end_late(hub),
        extend_locks(hub),
        serve_waiters(hub),
        tell_served(hub),
        follow_types(hub),
        hear(hub),
        tidy(hub)
    );
}

async fn end_late(hub: &Hub) {
    loop {
        let next = hub.state().next_deadline();
        let sleep = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = sleep => {}
            () = hub.reserved.notified() => {}
        }
        let late = hub.state().take_late(Instant::now());
        jobs::time_out(hub, late).await;
    }
}

async fn extend_locks(hub: &Hub) {
    let mut ticks = tokio::time::interval(EXTEND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut locks: HashMap<Bucket, Vec<Lock>> = HashMap::new();
        for held in hub.state().held.values() {
            let locks = locks.entry(held.bucket.clone()).or_default();
            locks.push(held.lock.clone());
        }
        // Concurrently, so that a round is shorter than a lease, however many lanes there are.
        let extend = |(bucket, locks): (Bucket, Vec<Lock>)| async move {
            if let Err(error) = hub.space.pull.extend_of(&bucket, locks, LEASE).await {
                debug!(%bucket, %error, "cannot extend locks");
            }
        };
        let extended = stream::iter(locks).for_each_concurrent(AT_A_TIME, extend);
        extended.await;
    }
}

/// Gives jobs to waiting clients, the longest waiting first.
async fn serve_waiters(hub: &Hub) {
    loop {
        let next = serve_once(hub).await.unwrap_or_else(|error| {
            debug!(%error, "cannot reserve jobs");
            Instant::now() + POLL
        });
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = hub.changed.notified() => {}
        }
    }
}

/// Serves all waiting clients once. Returns the time when another round may find something.
async fn serve_once(hub: &Hub) -> Result<Instant> {
    let turns: Vec<u64> = {
        let mut state = hub.state();
        state.waiters.retain(|_, waiter| !waiter.job.is_closed());
        state.waiters.keys().copied().collect()
    };
    for turn in turns {
        // A client without a job stays in the queue; it may disconnect at any time.
        let next = {
            let state = hub.state();
            let waiter = state.waiters.get(&turn);
            let waiter = waiter.filter(|waiter| !waiter.job.is_closed());
            waiter.map(|waiter| (waiter.holder, Arc::clone(&waiter.tubes)))
        };
        let Some((holder, tubes)) = next else {
            continue;
        };
        let Some(reserved) = reserve(hub, holder, &tubes).await? else {
            continue;
        };
        let number = reserved.number;
        let waiter = hub.state().waiters.remove(&turn);
        let given = waiter.map(|waiter| waiter.job.send(reserved));
        if !matches!(given, Some(Ok(()))) {
            // The client has disconnected meanwhile.
            let held = hub.state().take(holder, number);
            jobs::leave(hub, held.into_iter().collect()).await;
        }
    }
    Ok(next_round(hub))
}

/// The time when a lane may have something for a waiting client.
fn next_round(hub: &Hub) -> Instant {
    let state = hub.state();
    let tubes = state
        .waiters
        .values()
        .flat_map(|waiter| waiter.tubes.iter());
    let lanes = tubes
        .filter_map(|name| state.tubes.get(name))
        .flat_map(|tube| tube.lanes.values());
    let soonest = lanes.filter_map(|outlook| outlook.not_before).min();
    let poll = Instant::now() + POLL;
    soonest.map_or(poll, |soonest| soonest.min(poll))
}

/// Marks lanes as served whose jobs clients request or hold.
async fn tell_served(hub: &Hub) {
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(POLL).await;
        let lanes = hub
            .state()
            .served(std::mem::replace(&mut since, Instant::now()));
        for lane in lanes {
            hub.space.pull.serves(&lane.task_type);
        }
    }
}

/// Reads the list of lanes regularly.
async fn follow_types(hub: &Hub) {
    loop {
        if let Err(error) = hub.refresh().await {
            debug!(%error, "cannot read the tubes");
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn hear(hub: &Hub) {
    let mut wakeups = hub.store.wakeups();
    loop {
        match wakeups.next().await {
            Some(Wakeup::All) => hub.heard_of_all(),
            Some(wakeup) => {
                if let Some(task_type) = wakeup.task_type() {
                    hub.heard_of(task_type);
                }
            }
            None => return,
        }
    }
}

/// Completes abandoned moves and drops empty lanes.
async fn tidy(hub: &Hub) {
    loop {
        let tubes: Vec<_> = hub.state().tubes.keys().cloned().collect();
        for tube in tubes {
            for lane in hub.lanes(&tube) {
                let mended = moves::mend(hub, &tube, &lane).await;
                if let Err(error) = mended {
                    warn!(%tube, %error, "cannot complete moves of jobs to another priority");
                }
                if let Err(error) = drop_empty(hub, &tube, &lane).await {
                    debug!(%tube, %error, "cannot drop an empty lane");
                }
            }
            hub.state().drop_unused(&tube);
        }
        tokio::time::sleep(TIDY).await;
    }
}

async fn drop_empty(hub: &Hub, tube: &TubeName, lane: &Lane) -> Result<()> {
    let counts = hub.store.stats(&lane.task_type).await?;
    let is_empty = counts.scheduled + counts.running + counts.dead == 0;
    let is_old = {
        let now = Instant::now();
        let mut state = hub.state();
        let outlook = state.tube(tube).lanes.entry(lane.clone()).or_default();
        if !is_empty {
            outlook.empty_since = None;
            return Ok(());
        }
        let since = *outlook.empty_since.get_or_insert(now);
        now.duration_since(since) >= EMPTY
    };
    if is_old {
        match hub.store.drop_type(&lane.task_type).await {
            Ok(()) => {
                hub.state().tube(tube).lanes.remove(lane);
            }
            Err(Error::TypeInUse { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
