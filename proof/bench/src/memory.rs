//! How much of a Redis' memory a task takes.

use delayq_plugin::{DelayQueueJob, millis};
use tokio::time::sleep;

use crate::Failure;
use crate::bare_redis::{SETTLED, bytes_each};
use crate::load::{BULK, Ids, Message, TASK_TYPE, parts};
use crate::stage::{Stage, end};
use crate::throughput::all_accepted;
use crate::worker::Counter;

/// Due times are spread over so many ms, from an hour on.
const DUE_MS: std::ops::Range<u64> = 3_600_000..36_000_000;

/// Bytes of Redis memory a task.
pub(crate) async fn measure(stage: &Stage, count: usize, ids: Ids) -> Result<f64, Failure> {
    let plugin = stage.site().await?.plugin(Counter::up_to(0)).await?;
    let mut redis = stage.bare_redis().await?;
    let tasks = plugin.submit_service();
    sleep(SETTLED).await;
    let before = redis.used_memory().await?;
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(|number| {
            let job = DelayQueueJob::new(TASK_TYPE, &Message::new(number))?;
            let job = job.id(ids.id(number)?.as_str());
            Ok(job.after(millis(fastrand::u64(DUE_MS))))
        });
        let jobs = jobs.collect::<Result<Vec<_>, Failure>>()?;
        all_accepted(tasks.send_all(jobs).await)?;
    }
    // Buffers of connections and of the append-only file are freed first.
    sleep(SETTLED).await;
    let after = redis.used_memory().await?;
    end(plugin).await;
    Ok(bytes_each(after, before, count))
}
