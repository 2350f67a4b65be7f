//! For stores with persistent data: several stores on the same data, in one namespace or two.

use delayq_core::history::KeptMessage;
use delayq_core::operate::TypeSettings;
use delayq_core::store::{AttemptEnd, SettleOutcome, SubmitOutcome};
use delayq_core::{DelayQueueJob, FleetLimits, Rate, TaskState};

use super::history::{end_large, records, status, within_bound};
use super::instances::{announce, hosts, instance};
use super::rig::{LONG, Rig, SHORT, TYPE, id, job, retry, usual_type};

pub async fn two_stores_on_the_same_data_see_each_others_tasks(rig: &Rig) {
    let other = rig.open_again().await;
    rig.accept(job("1").header("shop", "berlin")).await;
    assert_eq!(other.find("1").await, rig.find("1").await);
    let state = TaskState::Scheduled;
    assert_eq!(
        other.submit(job("1").keep()).await,
        SubmitOutcome::AlreadyExists { state }
    );
    assert_eq!(other.store().types().await, Ok(vec![usual_type()]));
    let task = other.claim_one().await;
    rig.claims_nothing().await;
    rig.settled(&task.lock, AttemptEnd::Done).await;
    assert_eq!(other.state("1").await, Some(TaskState::Done));
}

pub async fn two_stores_on_the_same_data_never_hold_one_lock_both(rig: &Rig) {
    let other = rig.open_again().await;
    let first = rig.run("1").await;
    other.claims_nothing().await;
    rig.expire(&first.lock).await;
    let second = other.claim_one().await;
    assert!(second.lock.fence > first.lock.fence);
    assert_eq!(
        rig.settle(&first.lock, AttemptEnd::Done).await,
        SettleOutcome::LockLost
    );
    other.settled(&second.lock, AttemptEnd::Done).await;
}

pub async fn a_store_opened_later_goes_on_where_the_other_stopped(rig: &Rig) {
    rig.bring("dead", TaskState::Dead).await;
    rig.bring("done", TaskState::Done).await;
    let first = rig.run("1").await;
    rig.settled(&first.lock, retry(SHORT)).await;
    rig.store().pause(&usual_type(), None).await.unwrap();
    let later = rig.open_again().await;
    // Until it is due, it waits for another reason.
    later.pass(SHORT).await;
    for id in ["1", "dead", "done"] {
        assert_eq!(later.find(id).await, rig.find(id).await);
    }
    later.claims_nothing().await;
    later.store().resume(&usual_type()).await.unwrap();
    let second = later.claim_one().await;
    assert_eq!((second.attempt, second.history.failures), (2, 1));
    assert!(second.lock.fence > first.lock.fence);
}

pub async fn two_namespaces_never_see_each_other(rig: &Rig) {
    let other = rig.with_retention(rig.options().retention).await;
    rig.accept(job("1")).await;
    assert_eq!(other.find("1").await, None);
    assert_eq!(other.store().types().await, Ok(Vec::new()));
    other.claims_nothing().await;
    other
        .accept(DelayQueueJob::raw(TYPE, "other").id("1"))
        .await;
    rig.store().pause(&usual_type(), None).await.unwrap();
    let task = other.claim_one().await;
    assert_eq!(task.message, b"other");
    rig.store().resume(&usual_type()).await.unwrap();
    let mine = rig.claim_one().await;
    assert_eq!(mine.message, b"message");
    rig.settled(&mine.lock, AttemptEnd::Done).await;
    assert_eq!(other.state("1").await, Some(TaskState::Running));
    let removed = rig.store().purge(&usual_type(), TaskState::Done).await;
    assert_eq!(removed, Ok(1));
    other.settled(&task.lock, retry(LONG)).await;
    assert_eq!(rig.store().find(&usual_type(), &id("1")).await, Ok(None));
    other.finish().await;
}

pub async fn two_stores_on_the_same_data_share_the_limits_of_the_fleet(rig: &Rig) {
    let other = rig.open_again().await;
    let fleet = FleetLimits {
        concurrency: Some(2),
        rate: Some(Rate::per_hour(1).with_burst(3)),
    };
    let request = rig.request().await.fleet(fleet);
    for id in ["1", "2", "3", "4"] {
        rig.accept(job(id)).await;
    }
    let first = rig.claim_as(&request).await;
    assert_eq!(first.tasks.len(), 2);
    assert_eq!(other.claim_as(&request).await.tasks.len(), 0);
    for task in &first.tasks {
        rig.settled(&task.lock, AttemptEnd::Done).await;
    }
    assert_eq!(other.claim_as(&request).await.tasks.len(), 1);
    assert_eq!(rig.claim_as(&request).await.tasks.len(), 0);
}

pub async fn a_bound_set_by_one_store_is_kept_by_another(rig: &Rig) {
    let other = rig.open_again().await;
    rig.accept(job("1").after(LONG)).await;
    super::bound::bound(rig, Some(1)).await;
    let refused = super::bound::try_submit(&other, job("2")).await;
    assert_eq!(refused, Err(super::bound::full(1, 1)));
    assert_eq!(rig.store().stats(&usual_type()).await.unwrap().refused, 1);
}

pub async fn two_stores_on_the_same_data_see_each_others_instances(rig: &Rig) {
    let other = rig.open_again().await;
    let (one, two) = (instance("one"), instance("two"));
    announce(rig, &one).await;
    announce(&other, &two).await;
    assert_eq!(hosts(rig).await.len(), 2);
    other.store().withdraw(&one.id).await.unwrap();
    assert_eq!(hosts(rig).await, ["two"]);
}

pub async fn a_limit_set_by_one_store_is_kept_by_another(rig: &Rig) {
    let other = rig.open_again().await;
    rig.accept(job("1")).await;
    rig.accept(job("2")).await;
    let most = TypeSettings::default().fleet_concurrency(Some(1));
    super::settings::configure(rig, most).await;
    other.claim().await.assert_order(&["1"]);
    rig.claims_nothing().await;
}

pub async fn the_bound_of_recorded_ends_is_that_of_who_set_it(rig: &Rig) {
    for bound in [1 << 30, 1 << 20] {
        let rig = rig.with_buffer(bound).await;
        if !records(&rig, KeptMessage::Whole).await {
            return;
        }
        let other = rig.open_boundless().await;
        end_large(&other, 20, 100_000).await;
        let seen = within_bound(&other).await;
        assert_eq!(seen.limit, status(&rig).await.limit);
        assert_eq!(seen.lost > 0, bound == 1 << 20, "{seen:?}");
        rig.finish().await;
    }
}
