//! How long one task takes to be accepted when nothing else is under way.

use std::time::Instant;

use hdrhistogram::Histogram;
use tokio::runtime::Builder;

use crate::Failure;
use crate::bare_redis::BareRedis;
use crate::lateness::thousandth;
use crate::load;
use crate::stage::{Stage, end};
use crate::worker::Counter;

/// What takes longer than an hour counts as an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// How long calls took.
#[derive(Debug)]
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self(Histogram::new_with_max(LONGEST_NS, 3)?))
    }

    /// A call that was made at `started` has been answered.
    pub(crate) fn record(&mut self, started: Instant) {
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos);
    }

    pub(crate) fn median_us(&self) -> f64 {
        thousandth(self.0.value_at_quantile(0.5))
    }
}

/// Microseconds that one `send` takes at the median, by one caller that sends one task after the
/// other.
pub(crate) async fn of_send(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let plugin = stage.site().await?.plugin(Counter::up_to(0)).await?;
    let tasks = plugin.submit_service();
    let caller = tokio::spawn(async move {
        let mut latency = Latency::new()?;
        for number in 0..count {
            let job = load::later(number)?;
            let started = Instant::now();
            tasks.send(job).await?;
            latency.record(started);
        }
        Ok::<_, Failure>(latency.median_us())
    });
    let latency = caller.await??;
    end(plugin).await;
    Ok(latency)
}

/// Microseconds of a bare call at the median whose connection lives on a thread of its own: what it
/// costs that a starved application cannot stall delayq's connections.
pub(crate) async fn of_bare_apart(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let apart = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let url = stage.redis_url()?;
    let connecting = apart.spawn(async move { BareRedis::connect(&url).await });
    let mut redis = connecting.await??;
    let latency = redis.submit_latency(count, Some(apart.handle().clone()));
    let latency = latency.await;
    apart.shutdown_background();
    latency
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_microseconds() {
        let mut latency = Latency::new().unwrap();
        for nanos in [40_000, 50_000, 9_000_000] {
            latency.0.record(nanos).unwrap();
        }
        assert!((latency.median_us() - 50.0).abs() < 0.1, "{latency:?}");
    }
}
