//! Records of ended tasks. Skipped for a store without them.

use std::time::Duration;

use delayq_core::history::{
    EndPosition, EndsStatus, KeptMessage, Life, LifeOutcome, MAX_ENDS, MAX_LABEL, WaitingEnd, label,
};
use delayq_core::operate::{DeadFilter, TypeSettings};
use delayq_core::presence::InstanceId;
use delayq_core::store::AttemptEnd;
use delayq_core::{Error, TaskState, TaskType};

use super::rig::{LONG, Rig, SHORT, dead, id, job, release, retry, usual_type};

/// Records the ends of the usual type. False if the store cannot.
pub(super) async fn records(rig: &Rig, kept: KeptMessage) -> bool {
    let task_type = usual_type();
    rig.store().register_type(&task_type).await.unwrap();
    let settings = TypeSettings::default().history(Some(kept));
    let configured = rig.store().configure_type(&task_type, &settings).await;
    let is_refused = matches!(configured, Err(Error::Unsupported(_)));
    let status = rig.store().ends_status().await;
    assert_eq!(is_refused, matches!(status, Err(Error::Unsupported(_))));
    if !is_refused {
        configured.unwrap();
        assert_eq!(
            rig.store().stats(&task_type).await.unwrap().history,
            Some(kept.limit())
        );
    }
    !is_refused
}

async fn waiting(rig: &Rig) -> Vec<WaitingEnd> {
    rig.store().ends(MAX_ENDS).await.unwrap()
}

pub(super) async fn status(rig: &Rig) -> EndsStatus {
    rig.store().ends_status().await.unwrap()
}

/// The state of the queue once it is within its bound.
pub(super) async fn within_bound(rig: &Rig) -> EndsStatus {
    for _ in 0..200 {
        let status = status(rig).await;
        if status.bytes <= status.limit {
            return status;
        }
        rig.pass(Duration::from_millis(100)).await;
    }
    panic!("the bound is not kept");
}

/// Ends tasks whose records keep a message of that size.
pub(super) async fn end_large(rig: &Rig, count: usize, size: usize) {
    for n in 0..count {
        let job = delayq_core::DelayQueueJob::raw(usual_type().as_str(), vec![b'x'; size]);
        rig.accept(job.id(format!("{n:03}"))).await;
        let task = rig.claim_one().await;
        rig.settled(&task.lock, AttemptEnd::Done).await;
    }
}

/// Removes what waits.
async fn emptied(rig: &Rig) -> Vec<Life> {
    let waiting = waiting(rig).await;
    let positions: Vec<EndPosition> = waiting.iter().map(|end| end.position.clone()).collect();
    let removed = rig.store().remove_ends(&positions).await.unwrap();
    assert_eq!(removed, waiting.len() as u64);
    waiting.into_iter().map(|end| end.life).collect()
}

/// The one record that waits, which is of the task `id` and ended so; removes it.
async fn the_end(rig: &Rig, id: &str, outcome: LifeOutcome) -> Life {
    let mut lives = emptied(rig).await;
    assert_eq!(lives.len(), 1, "{lives:?}");
    let life = lives.remove(0);
    assert_eq!((life.id.as_str(), life.outcome), (id, outcome));
    assert_eq!(life.task_type, usual_type());
    assert!(life.submitted_at <= life.ended_at);
    life
}

pub async fn the_record_of_an_end_has_its_facts(rig: &Rig) {
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    let before = rig.now().await;
    let asked = job("1")
        .group("tenant-7")
        .header("project", "shop")
        .header("n", "1");
    let due_at = rig.accept(asked).await;
    let first = rig.claim_one().await;
    rig.settled(&first.lock, retry(SHORT)).await;
    rig.pass(SHORT + SHORT).await;
    let instance = InstanceId::generate();
    let request = rig.request().await.holder(&instance);
    let second = rig.claim_as(&request).await.tasks.remove(0);
    rig.pass(SHORT).await;
    assert_eq!(waiting(rig).await, [], "not before its end");
    rig.settled(&second.lock, AttemptEnd::Done).await;
    let after = rig.now().await;
    let life = the_end(rig, "1", LifeOutcome::Done).await;
    assert!((before..=after).contains(&life.submitted_at));
    assert!((life.started_at.unwrap()..=after).contains(&life.ended_at));
    assert_eq!(
        (life.due_at, life.fence, life.attempts),
        (due_at, second.lock.fence, 2)
    );
    let ran = life.ended_at.since(life.started_at.unwrap());
    assert_eq!(life.run_ms.map(u128::from), Some(ran.as_millis()));
    assert!(ran >= SHORT);
    let headers = (life.group.as_deref(), life.project.as_deref());
    assert_eq!(headers, (Some("tenant-7"), Some("shop")));
    assert_eq!(life.holder.as_deref(), Some(instance.short()));
    assert_eq!(life.error.as_deref(), Some("the shop is closed"));
    assert_eq!(life.errors.len(), 1);
    assert_eq!(
        (life.errors[0].attempt, &*life.errors[0].error),
        (1, "the shop is closed")
    );
    assert_eq!((life.message_bytes, life.message), (7, None));
}

pub async fn every_kind_of_end_is_recorded_once(rig: &Rig) {
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    for (state, outcome) in [
        (TaskState::Done, LifeOutcome::Done),
        (TaskState::Dead, LifeOutcome::Dead),
        (TaskState::Expired, LifeOutcome::Expired),
        (TaskState::Cancelled, LifeOutcome::Cancelled),
    ] {
        rig.bring(outcome.as_str(), state).await;
        let life = the_end(rig, outcome.as_str(), outcome).await;
        assert!(life.fence > 0 && life.run_ms.is_some(), "{life:?}");
        assert_eq!(life.attempts, 1, "{life:?}");
    }
    rig.accept(job("never").after(LONG)).await;
    let _ = rig.cancel("never").await;
    let life = the_end(rig, "never", LifeOutcome::Cancelled).await;
    assert_eq!((life.fence, life.attempts, life.started_at), (0, 0, None));
    let task = rig.run("released").await;
    rig.settled(&task.lock, release(LONG)).await;
    let _ = rig.cancel("released").await;
    let life = the_end(rig, "released", LifeOutcome::Cancelled).await;
    assert_eq!((life.fence, life.run_ms), (task.lock.fence, None));
}

pub async fn ends_by_a_claim_are_recorded(rig: &Rig) {
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    rig.accept(job("late").expires_at(rig.now().await.plus(SHORT)))
        .await;
    rig.pass(SHORT).await;
    assert_eq!(rig.claim().await.ended.len(), 1);
    let life = the_end(rig, "late", LifeOutcome::Expired).await;
    assert_eq!((life.fence, life.attempts, life.run_ms), (0, 0, None));
    let task = rig.run("stopped").await;
    let _ = rig.cancel("stopped").await;
    rig.expire(&task.lock).await;
    assert_eq!(rig.claim().await.ended.len(), 1);
    let life = the_end(rig, "stopped", LifeOutcome::Cancelled).await;
    assert_eq!((life.fence, life.attempts), (task.lock.fence, 1));
    let task = rig.run("poison").await;
    rig.expire(&task.lock).await;
    let request = rig.request().await.max_lock_expiries(1);
    assert_eq!(rig.claim_as(&request).await.ended.len(), 1);
    let life = the_end(rig, "poison", LifeOutcome::Dead).await;
    assert_eq!((life.fence, life.attempts), (task.lock.fence, 1));
    assert!(
        life.error
            .is_some_and(|error| error.starts_with("poison: "))
    );
    assert_eq!(life.errors.len(), 1);
}

pub async fn what_an_operator_removes_is_recorded(rig: &Rig) {
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    let task_type = usual_type();
    rig.bring("dead", TaskState::Dead).await;
    let death = the_end(rig, "dead", LifeOutcome::Dead).await;
    let filter = DeadFilter::Ids(vec![id("dead")]);
    rig.store().discard_dead(&task_type, &filter).await.unwrap();
    let life = the_end(rig, "dead", LifeOutcome::Discarded).await;
    assert_eq!(
        (life.submitted_at, life.fence),
        (death.submitted_at, death.fence)
    );
    assert_eq!(
        (life.error.as_deref(), life.run_ms),
        (Some("no such order"), None)
    );
    rig.bring("dead-2", TaskState::Dead).await;
    emptied(rig).await;
    for n in ["1", "2"] {
        rig.accept(job(n).after(LONG)).await;
    }
    rig.bring("done", TaskState::Done).await;
    emptied(rig).await;
    for (state, ids) in [
        (TaskState::Scheduled, &["1", "2"][..]),
        (TaskState::Dead, &["dead-2"]),
        (TaskState::Done, &[]),
    ] {
        rig.store().purge(&task_type, state).await.unwrap();
        let mut lives = emptied(rig).await;
        lives.sort_by(|a, b| a.id.cmp(&b.id));
        let found: Vec<_> = lives.iter().map(|life| life.id.as_str()).collect();
        assert_eq!(found, ids, "{state:?}");
        assert!(
            lives
                .iter()
                .all(|life| life.outcome == LifeOutcome::Discarded)
        );
    }
}

pub async fn a_life_that_another_follows_is_recorded(rig: &Rig) {
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    for (name, end, outcome) in [
        ("1", AttemptEnd::Done, LifeOutcome::Done),
        ("2", dead("no such order"), LifeOutcome::Dead),
    ] {
        let first = rig.run(name).await;
        rig.submit(job(name).header("n", "2").again_if_running())
            .await;
        rig.settled(&first.lock, end).await;
        let life = the_end(rig, name, outcome).await;
        assert_eq!(life.fence, first.lock.fence);
        assert_eq!(life.error.is_some(), outcome == LifeOutcome::Dead);
        let second = rig.claim_one().await;
        rig.settled(&second.lock, AttemptEnd::Done).await;
        let life = the_end(rig, name, LifeOutcome::Done).await;
        assert_eq!((life.fence, life.error), (second.lock.fence, None));
    }
    let first = rig.run("3").await;
    rig.pass(SHORT).await;
    let follow_up = job("3").header("n", "2").after(LONG).again_if_running();
    rig.submit(follow_up).await;
    rig.settled(&first.lock, AttemptEnd::Done).await;
    the_end(rig, "3", LifeOutcome::Done).await;
    let _ = rig.cancel("3").await;
    let life = the_end(rig, "3", LifeOutcome::Cancelled).await;
    let never_started = (life.fence, life.started_at, life.attempts);
    assert_eq!(never_started, (0, None, 0));
}

pub async fn a_repeated_settlement_records_nothing(rig: &Rig) {
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    let task = rig.run("1").await;
    for _ in 0..3 {
        rig.settled(&task.lock, AttemptEnd::Done).await;
    }
    let _ = rig.settle(&task.lock, dead("late")).await;
    let _ = rig.cancel("1").await;
    the_end(rig, "1", LifeOutcome::Done).await;
    let task = rig.run("2").await;
    for _ in 0..3 {
        rig.settled(&task.lock, dead("no such order")).await;
    }
    the_end(rig, "2", LifeOutcome::Dead).await;
}

pub async fn ends_are_recorded_only_while_the_setting_says_so(rig: &Rig) {
    rig.bring("before", TaskState::Done).await;
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    let other = TaskType::new("mail").unwrap();
    rig.bring("during", TaskState::Done).await;
    the_end(rig, "during", LifeOutcome::Done).await;
    let off = TypeSettings::default().history(None);
    rig.store()
        .configure_type(&usual_type(), &off)
        .await
        .unwrap();
    let on = TypeSettings::default().history(Some(KeptMessage::Nothing));
    rig.store().configure_type(&other, &on).await.unwrap();
    rig.bring("after", TaskState::Dead).await;
    assert_eq!(waiting(rig).await, []);
    let stats = rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!(stats.history, None);
}

pub async fn as_much_of_a_message_is_recorded_as_the_setting_says(rig: &Rig) {
    for (n, kept) in [
        KeptMessage::Nothing,
        KeptMessage::First(3),
        KeptMessage::Whole,
    ]
    .into_iter()
    .enumerate()
    {
        if !records(rig, kept).await {
            return;
        }
        for (size, message) in [("short", b"\0\xff".to_vec()), ("long", vec![b'x'; 70_000])] {
            let name = format!("{n}-{size}");
            let job = delayq_core::DelayQueueJob::raw(usual_type().as_str(), message.clone());
            rig.accept(job.id(name.as_str())).await;
            let task = rig.claim_one().await;
            rig.settled(&task.lock, AttemptEnd::Done).await;
            let life = the_end(rig, &name, LifeOutcome::Done).await;
            assert_eq!(life.message_bytes, message.len() as u64);
            assert_eq!(life.message, kept.of(&message), "{name}");
        }
    }
}

pub async fn records_stay_until_they_are_removed_and_no_place_is_given_twice(rig: &Rig) {
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    for name in ["1", "2", "3"] {
        rig.bring(name, TaskState::Done).await;
    }
    let first = rig.store().ends(2).await.unwrap();
    assert_eq!(first.len(), 2);
    let all = waiting(rig).await;
    assert_eq!((all.len(), &all[..2]), (3, &first[..]));
    let before = status(rig).await;
    assert_eq!((before.waiting, before.lost), (3, 0));
    assert_eq!(before.oldest, Some(all[0].life.ended_at));
    assert!(before.bytes > 0 && before.bytes <= before.limit);
    let positions: Vec<_> = all.iter().map(|end| end.position.clone()).collect();
    assert_eq!(rig.store().remove_ends(&positions[..1]).await, Ok(1));
    assert_eq!(rig.store().remove_ends(&positions[..2]).await, Ok(1));
    let unknown = EndPosition::new("no position");
    assert_eq!(rig.store().remove_ends(&[unknown]).await, Ok(0));
    assert_eq!(waiting(rig).await, &all[2..]);
    assert_eq!(rig.store().remove_ends(&positions).await, Ok(1));
    let after = status(rig).await;
    assert_eq!((after.waiting, after.bytes, after.oldest), (0, 0, None));
    rig.bring("4", TaskState::Done).await;
    assert_eq!(rig.store().remove_ends(&positions).await, Ok(0));
    the_end(rig, "4", LifeOutcome::Done).await;
}

pub async fn at_the_bound_the_oldest_records_go_and_are_counted(rig: &Rig) {
    let rig = rig.with_buffer(1 << 20).await;
    if !records(&rig, KeptMessage::Whole).await {
        return;
    }
    let (ends, size) = (40, 100_000);
    end_large(&rig, ends, size).await;
    let status = within_bound(&rig).await;
    let kept = waiting(&rig).await;
    assert_eq!(status.waiting, kept.len() as u64);
    assert_eq!(
        status.lost + status.waiting,
        ends as u64,
        "each is kept or counted"
    );
    assert!(
        status.bytes <= status.limit && status.limit >= 1 << 20,
        "{status:?}"
    );
    assert!((5..20).contains(&kept.len()), "{}", kept.len());
    let first = ends - kept.len();
    for (n, end) in kept.iter().enumerate() {
        assert_eq!(end.life.id.as_str(), format!("{:03}", first + n));
    }
    rig.finish().await;
}

pub async fn a_record_has_what_a_database_takes_of_a_group(rig: &Rig) {
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    let odd = "\0tenant\u{1F600}".repeat(200);
    let asked = job("1").group(odd.clone()).header("project", "\0");
    rig.accept(asked).await;
    let task = rig.claim_one().await;
    rig.settled(&task.lock, AttemptEnd::Done).await;
    let life = the_end(rig, "1", LifeOutcome::Done).await;
    assert_eq!(life.group, Some(label(&odd)));
    assert_eq!(life.project.as_deref(), Some("\u{fffd}"));
    assert!(life.group.unwrap().len() <= MAX_LABEL);
}

pub async fn a_type_that_is_dropped_goes_on_to_be_recorded(rig: &Rig) {
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    rig.bring("1", TaskState::Done).await;
    let dropped = rig.store().drop_type(&usual_type()).await;
    if matches!(
        dropped,
        Err(Error::Unsupported(_) | Error::InvalidInput { .. })
    ) {
        // A type with shards stays.
        return;
    }
    dropped.unwrap();
    rig.store().register_type(&usual_type()).await.unwrap();
    rig.bring("2", TaskState::Done).await;
    let ids: Vec<_> = emptied(rig).await.into_iter().map(|life| life.id).collect();
    assert_eq!(ids, [id("1"), id("2")]);
}

pub async fn the_records_of_namespaces_stay_apart(rig: &Rig) {
    let other = rig.with_retention(LONG).await;
    if !records(rig, KeptMessage::Nothing).await {
        return;
    }
    records(&other, KeptMessage::Nothing).await;
    other.bring("theirs", TaskState::Done).await;
    rig.bring("ours", TaskState::Done).await;
    the_end(rig, "ours", LifeOutcome::Done).await;
    the_end(&other, "theirs", LifeOutcome::Done).await;
}
