//! Sharded types: a bucket for each shard, and resizes that lose nothing.

use std::collections::{BTreeMap, BTreeSet};

use delayq_core::TaskState::{Cancelled, Dead, Done, Scheduled};
use delayq_core::operate::{DeadFilter, TypeSettings};
use delayq_core::store::{
    AttemptEnd, BucketState, CancelOutcome, ChangeOutcome, ExtendOutcome, SettleOutcome,
    Settlement, SubmitOutcome,
};
use delayq_core::{Bucket, Error, FleetLimits, TaskState, When, hours, minutes};

use super::rig::{LONG, Rig, SHORT, dead, id, job, release, usual_type};

/// Enough ids for every shard to have some.
const TASKS: usize = 60;

/// How often a draining bucket is claimed from before it must be gone.
const CLAIMS: usize = 500;

async fn resize(rig: &Rig, shards: u32) {
    let settings = TypeSettings::default().shards(shards);
    let resized = rig.store().configure_type(&usual_type(), &settings).await;
    resized.unwrap();
}

/// Gives the type this many shards, with no older ones still draining.
async fn shard(rig: &Rig, shards: u32) {
    resize(rig, shards).await;
    for _ in 0..CLAIMS {
        if buckets(rig).await.len() == shards as usize {
            return;
        }
        rig.claims_nothing().await;
        rig.pass(SHORT).await;
    }
    panic!("more than {shards} shards: {:?}", buckets(rig).await);
}

async fn buckets(rig: &Rig) -> BTreeSet<Bucket> {
    let listed = rig.buckets(&usual_type()).await;
    let count = listed.len();
    let buckets: BTreeSet<Bucket> = listed.into_iter().collect();
    assert_eq!(buckets.len(), count, "a bucket is listed twice");
    buckets
}

fn names() -> Vec<String> {
    (0..TASKS).map(|n| format!("{n:03}")).collect()
}

async fn accept_later(rig: &Rig) {
    for name in names() {
        rig.accept(job(&name).after(LONG)).await;
    }
}

/// Claims from every bucket until nothing is due. Returns how often each task was claimed.
async fn run_all(rig: &Rig) -> BTreeMap<String, usize> {
    let mut starts = BTreeMap::<_, usize>::new();
    loop {
        let round = rig.claim().await;
        if round.tasks.is_empty() && !round.is_more_due() {
            return starts;
        }
        for task in round.tasks {
            *starts.entry(task.lock.id.to_string()).or_default() += 1;
            rig.settled(&task.lock, AttemptEnd::Done).await;
        }
    }
}

pub async fn a_sharded_type_has_a_bucket_for_each_shard(rig: &Rig) {
    assert_eq!(buckets(rig).await.len(), 1);
    shard(rig, 3).await;
    let three = buckets(rig).await;
    assert_eq!(three.len(), 3);
    assert!(
        three
            .iter()
            .all(|bucket| *bucket.task_type() == usual_type())
    );
    assert_eq!(buckets(rig).await, three, "the same ones every time");
    assert_eq!(buckets(&rig.open_again().await).await, three);
}

pub async fn a_bucket_gives_its_own_tasks_and_no_others(rig: &Rig) {
    shard(rig, 3).await;
    for name in names() {
        rig.accept(job(&name)).await;
    }
    let mut owners = BTreeMap::new();
    for (bucket, claimed) in rig.claim().await.parts {
        assert!(!claimed.tasks.is_empty(), "{bucket} has no task");
        for task in claimed.tasks {
            let name = task.lock.id.to_string();
            assert_eq!(owners.insert(name, bucket.clone()), None);
            rig.settled(&task.lock, release(SHORT)).await;
        }
    }
    assert_eq!(owners.len(), TASKS);
    rig.pass(SHORT).await;
    for (bucket, claimed) in rig.claim().await.parts {
        for task in claimed.tasks {
            assert_eq!(owners.remove(task.lock.id.as_str()), Some(bucket.clone()));
        }
    }
    assert!(owners.is_empty(), "{owners:?}");
}

pub async fn a_lock_is_settled_in_the_bucket_it_was_claimed_from(rig: &Rig) {
    shard(rig, 3).await;
    let task = rig.run("1").await;
    let origin = rig.origin(&task.lock).await;
    let before = rig.find("1").await;
    for other in buckets(rig).await.into_iter().filter(|one| *one != origin) {
        let locks = vec![task.lock.clone()];
        let extended = rig.store().extend(&other, locks, hours(9)).await;
        assert_eq!(extended, Ok(vec![ExtendOutcome::LockLost]));
        let settlement = Settlement::new(task.lock.clone(), AttemptEnd::Done);
        let settled = rig.store().settle(&other, vec![settlement]).await;
        assert_eq!(settled, Ok(vec![SettleOutcome::LockLost]));
        assert_eq!(rig.find("1").await, before);
    }
    rig.settled(&task.lock, AttemptEnd::Done).await;
}

pub async fn fleet_limits_and_shards_exclude_each_other(rig: &Rig) {
    // One task in the sealed bucket, one in its successor.
    rig.accept(job("old")).await;
    resize(rig, 3).await;
    rig.accept(job("new")).await;
    let fleet = FleetLimits {
        concurrency: Some(1),
        rate: None,
    };
    let request = rig.request().await.fleet(fleet);
    let refusal = Error::FleetLimitOnShards {
        task_type: usual_type().to_string(),
        shards: 3,
    };
    for bucket in buckets(rig).await {
        let claimed = rig.store().claim(&bucket, &request).await;
        assert_eq!(claimed, Err(refusal.clone()));
    }
    let tasks = rig.claim().await.tasks;
    assert_eq!(tasks.len(), 2, "a refused claim locks nothing");
    assert!(tasks.iter().all(|task| task.attempt == 1));
}

pub async fn a_type_with_a_fleet_limit_is_not_sharded(rig: &Rig) {
    rig.accept(job("1")).await;
    let fleet = FleetLimits {
        concurrency: Some(1),
        rate: None,
    };
    let request = rig.request().await.fleet(fleet);
    assert_eq!(rig.claim_as(&request).await.tasks.len(), 1);
    let settings = TypeSettings::default().shards(3);
    let resized = rig.store().configure_type(&usual_type(), &settings).await;
    let refusal = Error::FleetLimitOnShards {
        task_type: usual_type().to_string(),
        shards: 3,
    };
    assert_eq!(resized, Err(refusal));
    assert_eq!(buckets(rig).await.len(), 1);
}

pub async fn a_limit_in_the_settings_and_shards_exclude_each_other(rig: &Rig) {
    let refusal = Error::FleetLimitOnShards {
        task_type: usual_type().to_string(),
        shards: 3,
    };
    let limit = TypeSettings::default().fleet_concurrency(Some(1));
    let both = limit.clone().shards(3);
    let configure = async |settings: TypeSettings| {
        let (store, task_type) = (rig.store(), usual_type());
        store.configure_type(&task_type, &settings).await
    };
    assert_eq!(configure(both).await, Err(refusal.clone()));
    configure(limit.clone()).await.unwrap();
    let shards = TypeSettings::default().shards(3);
    assert_eq!(configure(shards.clone()).await, Err(refusal.clone()));
    // A claim with the limit does not change how it is removed.
    rig.accept(job("1")).await;
    assert_eq!(rig.claim().await.tasks.len(), 1);
    let without = shards.fleet_concurrency(None);
    configure(without).await.unwrap();
    assert!(buckets(rig).await.len() > 1);
    assert_eq!(configure(limit).await, Err(refusal));
}

pub async fn a_type_that_was_sharded_is_not_dropped(rig: &Rig) {
    resize(rig, 3).await;
    let refused = rig.store().drop_type(&usual_type()).await.unwrap_err();
    assert!(refused.to_string().contains("was sharded"), "{refused}");
}

pub async fn a_resize_keeps_every_task_and_every_id(rig: &Rig) {
    shard(rig, 2).await;
    rig.bring("dead", Dead).await;
    rig.bring("done", Done).await;
    accept_later(rig).await;
    let mut before = BTreeMap::new();
    for name in names() {
        before.insert(name.clone(), rig.info(&name).await);
    }
    // One store has made the resize, and another has to find out.
    let other = rig.open_again().await;
    resize(&rig.open_again().await, 5).await;
    for rig in [rig, &other] {
        assert_eq!(rig.state("dead").await, Some(Dead));
        assert_eq!(rig.state("done").await, Some(Done));
        for (name, info) in &before {
            assert_eq!(rig.find(name).await.as_ref(), Some(info));
            let state = Scheduled;
            let same = rig.submit(job(name).after(LONG)).await;
            assert_eq!(same, SubmitOutcome::AlreadyExists { state });
            let different = rig.submit(job(name).after(LONG).header("a", "b")).await;
            assert_eq!(different, SubmitOutcome::Conflict { state });
        }
    }
    assert_eq!(rig.cancel("000").await, CancelOutcome::Cancelled);
    assert_eq!(rig.state("000").await, Some(Cancelled));
    let updated = rig.update("001", "new").await;
    assert!(
        matches!(updated, ChangeOutcome::Changed { .. }),
        "{updated:?}"
    );
    assert_eq!(rig.info("001").await.message.as_deref(), Some(&b"new"[..]));
    let replaced = rig.submit(job("002").header("a", "b").replace()).await;
    assert!(matches!(
        replaced,
        SubmitOutcome::Accepted { replaced: true, .. }
    ));
    rig.accept(job("new").after(minutes(1))).await;
    for name in names().iter().skip(1).map(String::as_str).chain(["new"]) {
        rig.run_now(name).await;
    }
    let starts = run_all(rig).await;
    assert_eq!(starts.len(), TASKS);
    assert!(starts.values().all(|starts| *starts == 1), "{starts:?}");
}

pub async fn what_runs_during_a_resize_ends_where_it_was_claimed(rig: &Rig) {
    shard(rig, 2).await;
    let running = rig.run_more(names()).await;
    assert_eq!(running.len(), TASKS);
    resize(rig, 5).await;
    let ends = [AttemptEnd::Done, release(LONG), dead("gone")];
    for (task, end) in running.iter().zip(ends.iter().cycle()) {
        let extended = rig.extend(&task.lock, LONG).await;
        assert!(
            matches!(extended, ExtendOutcome::Extended(_)),
            "{extended:?}"
        );
        rig.settled(&task.lock, end.clone()).await;
        rig.settled(&task.lock, end.clone()).await;
    }
    let states = [Done, Scheduled, Dead];
    for (task, state) in running.iter().zip(states.iter().cycle()) {
        assert_eq!(rig.state(task.lock.id.as_str()).await, Some(*state));
    }
}

pub async fn a_sealed_bucket_drains_and_is_gone(rig: &Rig) {
    let rig = rig.with_retention(SHORT).await;
    shard(&rig, 2).await;
    let old = buckets(&rig).await;
    accept_later(&rig).await;
    resize(&rig, 5).await;
    let both = buckets(&rig).await;
    assert_eq!(both.len(), 7, "old and new: {both:?}");
    assert!(both.is_superset(&old));
    for (bucket, claimed) in rig.claim().await.parts {
        let sealed = [BucketState::Open, BucketState::Sealed][usize::from(old.contains(&bucket))];
        assert_eq!(claimed.bucket, sealed, "{bucket}");
    }
    for name in names() {
        rig.run_now(&name).await;
    }
    assert_eq!(run_all(&rig).await.len(), TASKS);
    for _ in 0..CLAIMS {
        let present = buckets(&rig).await;
        if present.is_disjoint(&old) {
            assert_eq!(present.len(), 5);
            for bucket in &old {
                let request = rig.request().await;
                let claimed = rig.store().claim(bucket, &request).await.unwrap();
                assert_eq!(claimed.bucket, BucketState::Drained, "{bucket}");
                assert_eq!(claimed.next_in, None);
            }
            rig.finish().await;
            return;
        }
        rig.claims_nothing().await;
        rig.pass(SHORT).await;
    }
    panic!("the old buckets are still there: {:?}", buckets(&rig).await);
}

pub async fn operators_see_all_shards_during_a_resize(rig: &Rig) {
    shard(rig, 2).await;
    accept_later(rig).await;
    for name in ["dead-1", "dead-2", "dead-3"] {
        rig.bring(name, Dead).await;
    }
    resize(rig, 5).await;
    for n in 0..TASKS {
        rig.accept(job(&format!("new-{n}")).after(LONG)).await;
    }
    rig.bring("dead-4", Dead).await;
    let (store, task_type) = (rig.store(), usual_type());
    let stats = store.stats(&task_type).await.unwrap();
    let expected = u64::try_from(2 * TASKS).unwrap();
    assert_eq!((stats.scheduled, stats.dead), (expected, 4));
    let report = store.audit(&task_type, false).await.unwrap();
    assert_eq!(
        (report.checked, report.problems),
        (expected + 4, Vec::new())
    );
    let (mut listed, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = store.list(&task_type, Scheduled, cursor.as_ref(), 7).await;
        let page = page.unwrap();
        for task in page.tasks {
            assert!(listed.insert(task.id.clone()), "{} twice", task.id);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed.len(), 2 * TASKS);
    let now = rig.now().await;
    let due = store
        .due_histogram(&task_type, now, now.plus(LONG * 2), 2)
        .await;
    assert_eq!(due.unwrap().iter().sum::<u64>(), expected);
    let requeued = store
        .requeue_dead(&task_type, &DeadFilter::all(), LONG)
        .await;
    assert_eq!(requeued.unwrap().len(), 4);
    store.pause(&task_type, None).await.unwrap();
    let _ = rig
        .reschedule("000", When::After(std::time::Duration::ZERO))
        .await;
    let _ = rig
        .reschedule("new-0", When::After(std::time::Duration::ZERO))
        .await;
    rig.pass(SHORT).await;
    rig.claims_nothing().await;
    store.resume(&task_type).await.unwrap();
    let claimed = rig.claim().await;
    let mut ids = claimed.ids();
    ids.retain(|id| !id.starts_with("dead"));
    assert_eq!(ids, ["000", "new-0"]);
    let started = u64::try_from(claimed.tasks.len()).unwrap();
    let purged = store.purge(&task_type, TaskState::Scheduled).await;
    assert_eq!(purged, Ok(expected + 4 - started));
    assert_eq!(rig.store().find(&task_type, &id("001")).await, Ok(None));
}

pub async fn fewer_shards_than_there_are_change_nothing(rig: &Rig) {
    shard(rig, 3).await;
    let three = buckets(rig).await;
    for shards in [2, 1, 3] {
        resize(rig, shards).await;
        assert_eq!(buckets(rig).await, three);
    }
}
