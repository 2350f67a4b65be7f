//! Moves that are taken back, locks without a bucket, and types that are closed by an operator.

use delayq_plugin::store::ExtendOutcome;

use super::*;

#[tokio::test]
async fn every_server_follows_to_the_second_store_after_a_move_was_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let one = Instance::start(&folder).await;
    let late = Instance::start(&folder).await;
    let mover = one.mover();
    mover.begin(Some("b".to_owned())).await.unwrap();
    // It opens b, and hears of the next move only when that has begun.
    late.place.hear().await.unwrap();
    mover.cancel().await.unwrap();
    mover.begin(Some("d".to_owned())).await.unwrap();
    drive(&mover, Phase::Moving).await;
    late.place.hear().await.unwrap();
    late.send("new", hours(1)).await.unwrap();
    assert_eq!(one.state("new").await, Some(TaskState::Scheduled));
}

#[tokio::test]
async fn a_move_after_one_that_was_taken_back_is_prepared_for_its_own_time() {
    let folder = tempfile::tempdir().unwrap();
    let one = Instance::start(&folder).await;
    let mover = one.mover();
    let mut starts = Vec::new();
    for to in ["b", "d"] {
        mover.begin(Some(to.to_owned())).await.unwrap();
        let place = one.place.place();
        let since = mover.known_since(&place);
        assert_eq!(mover.known_since(&place), since, "{to}");
        starts.push(since);
        mover.cancel().await.unwrap();
    }
    assert!(starts[0] < starts[1], "{starts:?}");
}

/// A task that is settled later has a lock that does not name its bucket.
#[tokio::test]
async fn a_lock_without_a_bucket_counts_in_the_store_that_has_the_task() {
    let folder = tempfile::tempdir().unwrap();
    let (one, _, (_, old)) = laid_out(&folder).await;
    one.send("new", Duration::ZERO).await.unwrap();
    let (bucket, new) = one.claim_one().await;
    let whole = Bucket::whole(job_type());
    assert_ne!(bucket, whole);
    let stale = Lock {
        id: new.id.clone(),
        fence: new.fence - 1,
    };
    let locks = vec![new, stale, old];
    let extended = one.place.extend(&whole, locks.clone(), hours(2)).await;
    let extended = extended.unwrap();
    let is_in_order = matches!(
        extended[..],
        [
            ExtendOutcome::Extended(_),
            ExtendOutcome::LockLost,
            ExtendOutcome::Extended(_)
        ]
    );
    assert!(is_in_order, "{extended:?}");
    let done = |lock| Settlement::new(lock, AttemptEnd::Done);
    let settlements: Vec<_> = locks.into_iter().map(done).collect();
    let settled = one.place.settle(&whole, settlements).await.unwrap();
    let expected = [
        SettleOutcome::Settled,
        SettleOutcome::LockLost,
        SettleOutcome::Settled,
    ];
    assert_eq!(settled, expected);
    for name in ["new", "runs"] {
        assert_eq!(one.state(name).await, Some(TaskState::Done), "{name}");
    }
}

#[tokio::test]
async fn a_lock_without_a_bucket_counts_once_the_old_store_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let one = Instance::start(&folder).await;
    let mover = one.mover();
    mover.begin(Some("b".to_owned())).await.unwrap();
    drive(&mover, Phase::Done).await;
    one.send("new", Duration::ZERO).await.unwrap();
    let (_, lock) = one.claim_one().await;
    let settled = one.done((Bucket::whole(job_type()), lock)).await;
    assert_eq!(settled, SettleOutcome::Settled);
}

#[tokio::test]
async fn a_type_that_an_operator_closed_stays_closed_and_keeps_its_settings() {
    let folder = tempfile::tempdir().unwrap();
    let one = Instance::start(&folder).await;
    one.send("early", hours(1)).await.unwrap();
    let closed = TypeSettings::default()
        .max_pending(Some(0))
        .fleet_concurrency(Some(3));
    one.tasks.configure_type("job", &closed).await.unwrap();
    one.tasks.pause("job", None).await.unwrap();
    let mover = one.mover();
    mover.begin(Some("b".to_owned())).await.unwrap();
    drive(&mover, Phase::Moving).await;
    let view = one.place.view().unwrap();
    let stats = view.new.store.stats(&job_type()).await.unwrap();
    assert_eq!(
        (
            stats.max_pending,
            stats.fleet_concurrency,
            stats.paused_until
        ),
        (Some(0), Some(3), Some(Timestamp::MAX))
    );
    let refused = one.send("new", hours(1)).await.unwrap_err();
    assert!(matches!(refused, Error::QueueFull { .. }), "{refused}");
}
