//! Limits of the fleet and bounds, as a plugin keeps them: under virtual time, on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delayq_core::operate::TypeSettings;
use delayq_plugin::{
    DelayQueueJob, Delivery, Error, FleetLimits, Rate, StartError, TaskState, TaskSubmitService,
    WorkerOptions, millis, seconds,
};
use delayq_testing::{Fault, FaultyStore};
use delayq_tests::rig::{Rig, reaches, send, until};
use tokio::sync::Semaphore;

fn limited(concurrency: Option<u32>, rate: Option<Rate>) -> WorkerOptions {
    WorkerOptions {
        fleet: FleetLimits { concurrency, rate },
        ..WorkerOptions::DEFAULT
    }
}

/// Two plugins share one place: whichever frees it, the next task starts at once, without any time
/// passing.
#[tokio::test]
async fn a_place_that_becomes_free_is_used_at_once_by_any_instance() {
    let mut rig = Rig::default();
    let (gate, inside) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let script = {
        let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
        move |_| {
            let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
            async move {
                let before = inside.fetch_add(1, Ordering::SeqCst);
                assert_eq!(before, 0, "two at a time");
                gate.acquire().await.unwrap().forget();
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        }
    };
    let one = rig.start(limited(Some(1), None), script.clone()).await;
    let other = rig.start(limited(Some(1), None), script).await;
    let tasks = one.submit_service();
    for n in 0..20 {
        send(&tasks, &n.to_string(), Duration::ZERO).await;
    }
    for _ in 0..20 {
        rig.next().await;
        gate.add_permits(1);
    }
    for n in 0..20 {
        reaches(&tasks, &n.to_string(), TaskState::Done).await;
    }
    one.shutdown(Duration::ZERO).await;
    other.shutdown(Duration::ZERO).await;
}

/// A store whose claims are counted.
fn counted(rig: &mut Rig) -> Arc<AtomicU32> {
    let claims = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&claims);
    let plan = move |edge| {
        if edge == "claim" {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Fault::None
    };
    rig.store = Arc::new(FaultyStore::new(Arc::clone(&rig.store), plan));
    claims
}

#[tokio::test]
async fn a_rate_spaces_starts_and_makes_no_handler_spin() {
    let mut rig = Rig::default();
    let claims = counted(&mut rig);
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    for n in 0..6 {
        send(&tasks, &n.to_string(), Duration::ZERO).await;
    }
    let rate = Rate::new(1, millis(250)).with_burst(2);
    let options = limited(None, Some(rate));
    let plugin = rig.start(options, |_| async { Ok(()) }).await;
    let mut starts = vec![rig.next().await.at, rig.next().await.at];
    for n in 2..6 {
        rig.clock.advance(millis(250));
        starts.push(rig.next().await.at);
        reaches(&tasks, &n.to_string(), TaskState::Done).await;
    }
    let expected = [0, 0, 250, 500, 750, 1_000].map(millis);
    assert_eq!(starts, expected);
    plugin.shutdown(Duration::ZERO).await;
    // One that brings something for each interval, and one that may follow a settlement or a
    // wake-up.
    let claims = claims.load(Ordering::Relaxed);
    assert!((5..=20).contains(&claims), "{claims}");
}

/// What a bound that somebody declared does to a submitter without workers.
async fn is_full(tasks: &TaskSubmitService, id: &str) -> bool {
    match tasks
        .send(DelayQueueJob::raw("job", id).id(id).after(seconds(60)))
        .await
    {
        Ok(_) => false,
        Err(Error::QueueFull { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_bound_that_a_worker_declares_is_obeyed_by_every_submitter() {
    let rig = Rig::default();
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    let bounded = WorkerOptions {
        max_pending: Some(2),
        ..WorkerOptions::DEFAULT
    };
    let plugin = rig.start(bounded, |_| async { Ok(()) }).await;
    assert!(!is_full(&tasks, "1").await && !is_full(&tasks, "2").await);
    assert!(is_full(&tasks, "3").await);
    let stats = tasks.stats("job").await.unwrap();
    assert_eq!((stats.max_pending, stats.refused), (Some(2), 1));
    plugin.shutdown(Duration::ZERO).await;
    // One that declares none leaves it as it is.
    let silent = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    assert!(is_full(&tasks, "3").await);
    let lifted = TypeSettings::default().max_pending(None);
    tasks.configure_type("job", &lifted).await.unwrap();
    assert!(!is_full(&tasks, "3").await);
    silent.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_bound_that_a_pattern_worker_declares_holds_for_the_types_that_appear() {
    let rig = Rig::default();
    let options = WorkerOptions {
        max_pending: Some(1),
        ..WorkerOptions::DEFAULT
    };
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder().worker("report.*", options, worker);
    let plugin = builder.start().await.unwrap();
    let tasks = plugin.submit_service();
    let job = |id: &str| {
        DelayQueueJob::raw("report.day", id)
            .id(id)
            .after(seconds(60))
    };
    tasks.send(job("1")).await.unwrap();
    until("the bound of the new type", || async {
        let stats = tasks.stats("report.day").await.unwrap();
        (stats.max_pending == Some(1)).then_some(())
    })
    .await;
    let refused = tasks.send(job("2")).await;
    assert!(
        matches!(refused, Err(Error::QueueFull { .. })),
        "{refused:?}"
    );
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn limits_that_cannot_be_kept_are_refused_at_the_start() {
    let rig = Rig::default();
    let once = WorkerOptions {
        delivery: Delivery::AtMostOnce,
        ..limited(Some(3), None)
    };
    let closed = WorkerOptions {
        max_pending: Some(0),
        ..WorkerOptions::DEFAULT
    };
    for (options, reason) in [
        (once, "use concurrency or fleet_rate"),
        (closed, "max_pending must be at least 1"),
        (
            limited(Some(0), None),
            "fleet_concurrency must be at least 1",
        ),
        (
            limited(None, Some(Rate::per_second(0))),
            "1 to 1,000,000 starts",
        ),
    ] {
        let worker = rig.worker(|_| async { Ok(()) });
        let refused = rig.builder().worker("job", options, worker).start().await;
        let Err(error @ StartError::InvalidOption { .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.to_string().contains(reason), "{error}");
    }
}
