//! The store's clock, at a finer resolution than its answers.

use delayq_core::{DelayQueueJob, TaskType};

use super::rig::{LONG, Rig, id};

/// The store's clock in microseconds, derived from a claim's wait for a task with a known due time.
pub(super) async fn micros(rig: &Rig) -> i64 {
    let task_type = TaskType::new("clock").unwrap();
    let job = DelayQueueJob::raw(task_type.as_str(), "").id("mark").keep();
    let at = rig.now().await.plus(LONG);
    rig.submit(job.at(at)).await;
    let mark = rig.store().find(&task_type, &id("mark")).await;
    let due_at = mark.unwrap().unwrap().at;
    let mut none = rig.request().await;
    none.limit = 0;
    let round = rig.claim_of(&task_type, &none).await;
    let mut waits = round
        .parts
        .iter()
        .filter_map(|(_, claimed)| claimed.next_in);
    let wait = i64::try_from(waits.next().unwrap().as_micros()).unwrap();
    due_at.as_millis() * 1_000 - wait
}
