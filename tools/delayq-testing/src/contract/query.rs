//! A store's facts about itself: find, types, stats, the forecast of due times.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, Durability};
use delayq_core::{DelayQueueJob, Error, TaskState, TaskType, millis, minutes};

use super::rig::{LONG, Rig, SHORT, dead, id, job, retry, usual_type};

pub async fn a_store_has_a_name_a_durability_and_good_health(rig: &Rig) {
    assert!(!rig.store().name().is_empty());
    assert!(rig.store().durability() >= Durability::Memory);
    assert_eq!(rig.store().check().await, Ok(()));
}

pub async fn an_unknown_task_is_not_found(rig: &Rig) {
    assert_eq!(rig.find("unknown").await, None);
    rig.accept(job("1").after(LONG)).await;
    assert_eq!(rig.find("2").await, None);
    let other = TaskType::new("gift.refund").unwrap();
    assert_eq!(rig.store().find(&other, &id("1")).await, Ok(None));
}

pub async fn a_query_right_after_an_edge_knows_of_it(rig: &Rig) {
    rig.accept(job("1")).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Scheduled));
    let task = rig.claim_one().await;
    assert_eq!(rig.state("1").await, Some(TaskState::Running));
    rig.settled(&task.lock, retry(Duration::ZERO)).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Scheduled));
    let task = rig.claim_one().await;
    assert_eq!(rig.info("1").await.attempt, 2);
    rig.settled(&task.lock, dead("gone")).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Dead));
}

pub async fn an_ended_task_is_forgotten_after_the_retention(rig: &Rig) {
    let rig = rig.with_retention(SHORT).await;
    let task = rig.run("done").await;
    rig.settled(&task.lock, AttemptEnd::Done).await;
    rig.accept(job("cancelled")).await;
    let _ = rig.cancel("cancelled").await;
    rig.bring("dead", TaskState::Dead).await;
    rig.pass(SHORT).await;
    assert_eq!(rig.find("done").await, None);
    assert_eq!(rig.find("cancelled").await, None);
    assert_eq!(
        rig.state("dead").await,
        Some(TaskState::Dead),
        "dead tasks stay"
    );
    rig.finish().await;
}

async fn types(rig: &Rig) -> Vec<String> {
    let types = rig.store().types().await.unwrap();
    types.iter().map(TaskType::to_string).collect()
}

pub async fn types_are_listed_sorted_and_once(rig: &Rig) {
    assert!(types(rig).await.is_empty());
    for name in ["b", "a.b", "Z", "a", "a:b", "b", "0"] {
        rig.accept(DelayQueueJob::raw(name, "m").after(LONG)).await;
    }
    assert_eq!(types(rig).await, ["0", "Z", "a", "a.b", "a:b", "b"]);
}

pub async fn a_type_stays_listed_when_its_tasks_have_gone(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    rig.store()
        .purge(&usual_type(), TaskState::Scheduled)
        .await
        .unwrap();
    assert_eq!(types(rig).await, [usual_type().as_str()]);
}

pub async fn a_type_can_be_registered_before_its_first_task(rig: &Rig) {
    rig.store().register_type(&usual_type()).await.unwrap();
    rig.store().register_type(&usual_type()).await.unwrap();
    assert_eq!(types(rig).await, [usual_type().as_str()]);
}

pub async fn asking_about_a_type_does_not_list_it(rig: &Rig) {
    rig.claims_nothing().await;
    rig.find("1").await;
    let _ = rig.cancel("1").await;
    rig.store().stats(&usual_type()).await.unwrap();
    rig.store().audit(&usual_type(), true).await.unwrap();
    assert!(types(rig).await.is_empty());
}

pub async fn stats_count_every_state(rig: &Rig) {
    let due_at = rig.accept(job("due")).await;
    rig.pass(SHORT).await;
    rig.accept(job("later").after(LONG)).await;
    let stats = rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!(
        (stats.scheduled, stats.due, stats.next_due),
        (2, 1, Some(due_at))
    );
    assert_eq!(stats.oldest_age(), stats.now.since(due_at));
    assert!(stats.oldest_age() >= SHORT);
    rig.claim_one().await;
    for n in 0..3 {
        rig.bring(&n.to_string(), TaskState::Dead).await;
    }
    rig.bring("done", TaskState::Done).await;
    let stats = rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!(
        (stats.scheduled, stats.due, stats.running, stats.dead),
        (1, 0, 1, 3)
    );
    assert_eq!(stats.paused_until, None);
}

pub async fn stats_of_an_unknown_type_count_nothing(rig: &Rig) {
    let stats = rig
        .store()
        .stats(&TaskType::new("gift.refund").unwrap())
        .await
        .unwrap();
    assert_eq!(
        (stats.scheduled, stats.due, stats.running, stats.dead),
        (0, 0, 0, 0)
    );
    assert_eq!((stats.next_due, stats.paused_until), (None, None));
    assert_eq!(stats.oldest_age(), Duration::ZERO);
    assert!(stats.now >= rig.now().await.minus(minutes(1)));
}

pub async fn the_histogram_counts_scheduled_tasks_by_due_time(rig: &Rig) {
    let from = rig.now().await.plus(LONG);
    let to = from.plus(minutes(4));
    let at = [0, 59_999, 60_000, 119_999, 120_000, 239_999];
    for ms in at {
        rig.accept(job(&ms.to_string()).at(from.plus(millis(ms))))
            .await;
    }
    rig.accept(job("before").at(from.minus(millis(1)))).await;
    rig.accept(job("behind").at(to)).await;
    rig.run("running").await;
    let count = async |steps| {
        rig.store()
            .due_histogram(&usual_type(), from, to, steps)
            .await
    };
    assert_eq!(count(4).await, Ok(vec![2, 2, 1, 1]));
    assert_eq!(count(1).await, Ok(vec![6]));
    let fine = count(1_000).await.unwrap();
    assert_eq!((fine.len(), fine.iter().sum::<u64>()), (1_000, 6));
    assert_eq!((fine[0], fine[249], fine[250], fine[999]), (1, 1, 1, 1));
}

pub async fn a_histogram_of_an_impossible_range_is_refused(rig: &Rig) {
    let now = rig.now().await;
    let later = now.plus(LONG);
    for (from, to, steps) in [
        (now, now, 4),
        (later, now, 4),
        (now, later, 0),
        (now, later, 1_001),
    ] {
        let refusal = rig
            .store()
            .due_histogram(&usual_type(), from, to, steps)
            .await;
        assert!(
            matches!(refusal, Err(Error::InvalidInput { .. })),
            "{refusal:?}"
        );
    }
}

pub async fn an_audit_looks_at_every_task(rig: &Rig) {
    for n in 0..300 {
        rig.accept(job(&n.to_string()).after(LONG)).await;
    }
    let report = rig.store().audit(&usual_type(), false).await.unwrap();
    assert_eq!((report.checked, report.problems), (300, Vec::new()));
}

pub async fn a_repairing_audit_changes_nothing_that_is_right(rig: &Rig) {
    let states = [TaskState::Scheduled, TaskState::Running, TaskState::Dead];
    for state in states {
        rig.bring(state.as_str(), state).await;
    }
    rig.run("cancelling").await;
    let _ = rig.cancel("cancelling").await;
    let mut before = Vec::new();
    for id in ["scheduled", "running", "dead", "cancelling"] {
        before.push(rig.find(id).await);
    }
    let report = rig.store().audit(&usual_type(), true).await.unwrap();
    assert_eq!(report.problems, []);
    for known in before.into_iter().flatten() {
        assert_eq!(rig.info(known.id.as_str()).await, known);
    }
}
