//! A process that sends tasks at a steady pace, and runs none.

use std::ops::RangeInclusive;
use std::time::Duration;

use delayq_plugin::{DelayQueueJob, millis};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::Failure;
use crate::load::{Message, TASK_TYPE};
use crate::stage::Site;

/// How often the sender wakes up at least; it then sends what has become due to be sent.
const TICK: Duration = millis(10);

/// How many tasks are sent, how fast, and when they are due.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pace {
    pub(crate) per_second: u32,
    pub(crate) count: usize,
    /// A task is due so many ms after it is sent, spread evenly.
    pub(crate) delays_ms: RangeInclusive<u64>,
}

impl Pace {
    /// How long after the first task this one is sent.
    fn send_after(&self, number: usize) -> Result<Duration, Failure> {
        Ok(Duration::from_secs(1) * u32::try_from(number)? / self.per_second)
    }
}

/// Sends all, whether or not the store keeps up; returns once all are accepted.
pub(crate) async fn send(site: Site, pace: Pace) -> Result<(), Failure> {
    let tasks = site.sender().await?;
    let started = Instant::now();
    let mut answers = JoinSet::new();
    for number in 0..pace.count {
        let send_at = started + pace.send_after(number)?;
        if Instant::now() < send_at {
            sleep_until(send_at.max(Instant::now() + TICK)).await;
        }
        let tasks = tasks.clone();
        let delay = millis(fastrand::u64(pace.delays_ms.clone()));
        let job = DelayQueueJob::new(TASK_TYPE, &Message::new(number))?.after(delay);
        answers.spawn(async move { tasks.send(job).await });
        while let Some(sent) = answers.try_join_next() {
            sent??;
        }
    }
    while let Some(sent) = answers.join_next().await {
        sent??;
    }
    tasks.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_neither_drifts_nor_overflows() {
        let pace = Pace {
            per_second: 20_000,
            count: 600_000,
            delays_ms: 1_000..=5_000,
        };
        assert_eq!(pace.send_after(0).unwrap(), Duration::ZERO);
        assert_eq!(pace.send_after(1).unwrap(), Duration::from_micros(50));
        assert_eq!(pace.send_after(600_000).unwrap(), Duration::from_secs(30));
    }
}
