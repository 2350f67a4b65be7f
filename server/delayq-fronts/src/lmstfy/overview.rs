//! Figures and queues of all pools.

use std::collections::BTreeMap;

use delayq_service::problem::Problem;

use super::figures::{gauge, labels};
use super::queue_name::QueueName;
use super::state::Lmstfy;

/// Most queues of a pool whose sizes are told.
const MAX_SIZES: usize = 1_000;

/// The queues of a pool, by namespace.
pub(super) async fn queues(
    front: &Lmstfy,
    pool: &str,
) -> Result<BTreeMap<String, Vec<String>>, Problem> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for QueueName { namespace, queue } in front.queues(pool).await? {
        all.entry(namespace).or_default().push(queue);
    }
    Ok(all)
}

/// All figures as Prometheus reads them.
pub(super) async fn metrics(front: &Lmstfy) -> String {
    let mut text = front.figures.render();
    let (mut timers, mut ready, mut dead) = (Vec::new(), Vec::new(), Vec::new());
    for pool in front.pools.keys() {
        let mut timed = 0;
        let Some(Ok(engine)) = front.engine(pool).await else {
            continue;
        };
        let queues = front.queues(pool).await.unwrap_or_default();
        for queue in queues.into_iter().take(MAX_SIZES) {
            let Ok(task_type) = queue.task_type() else {
                continue;
            };
            let Ok(stats) = engine.space.tasks.store().stats(&task_type).await else {
                continue;
            };
            let of = labels(&[
                ("pool", pool),
                ("namespace", &queue.namespace),
                ("queue", &queue.queue),
            ]);
            timed += stats.scheduled.saturating_sub(stats.due) + stats.running;
            ready.push((of.clone(), stats.due));
            dead.push((of, stats.dead));
        }
        timers.push((labels(&[("pool", pool)]), timed));
    }
    gauge(&mut text, "redis_timer_sizes", &timers);
    gauge(&mut text, "redis_queue_sizes", &ready);
    gauge(&mut text, "redis_deadletter_sizes", &dead);
    text
}
