//! What is said of a task that has started or ended, and its timeline.

use std::time::Duration;

use delayq_ops::{Cause, Explanation, Holder, MomentKind, timeline};
use delayq_plugin::store::AttemptEnd;
use delayq_plugin::{
    CancelOutcome, Clock, DelayQueueJob, FleetLimits, VirtualClock, WaitsFor, minutes, seconds,
};

use crate::bench::{Bench, TYPE, retry, sqlite};

#[tokio::test]
async fn a_run_says_where_and_how_late_it_started_and_an_orphan_until_when_it_is_locked() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    bench.send("a", Duration::ZERO).await;
    bench.clock.advance(seconds(7));
    let until = bench.clock.now().plus(minutes(10));
    bench.claim(1, FleetLimits::NONE).await;
    let explained = bench.explain("a").await;
    let Cause::Running {
        since,
        attempt,
        holder,
        ..
    } = &explained.cause
    else {
        panic!("{explained:?}");
    };
    assert_eq!((*since, *attempt), (Some(bench.clock.now()), 1));
    let holder = holder.as_ref().unwrap();
    assert_eq!(
        (holder.host.as_deref(), holder.pid),
        (Some("shop-3"), Some(17))
    );
    assert_eq!(explained.late, Some(seconds(7)));
    bench.tasks.store().withdraw(&bench.worker).await.unwrap();
    let orphaned = |explained: Explanation| match explained.cause {
        Cause::LockOrphaned {
            until, is_expired, ..
        } => (until, is_expired),
        _ => panic!("{explained:?}"),
    };
    assert_eq!(orphaned(bench.explain("a").await), (until, false));
    bench.clock.advance(minutes(11));
    assert_eq!(orphaned(bench.explain("a").await), (until, true));
}

#[tokio::test]
async fn an_end_says_which_and_an_unknown_task_what_can_be_known() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    let explained = bench.explain("a").await;
    assert!(
        matches!(
            explained.cause,
            Cause::Unknown {
                is_listed: false,
                ..
            }
        ),
        "{explained:?}"
    );
    let job = DelayQueueJob::raw(TYPE, "hi")
        .id("late")
        .expires_after(seconds(1));
    bench.tasks.send(job).await.unwrap();
    bench.send("done", minutes(1)).await;
    bench.send("off", minutes(1)).await;
    let cancelled = bench.tasks.cancel(TYPE, "off").await.unwrap();
    assert_eq!(cancelled, CancelOutcome::Cancelled);
    bench.clock.advance(minutes(1));
    let lock = bench.claim(2, FleetLimits::NONE).await.remove(0);
    bench.settle(lock, AttemptEnd::Done).await;
    let at = bench.clock.now();
    assert_eq!(
        bench.explain("done").await.cause,
        Cause::Done { at, error: None }
    );
    assert_eq!(bench.explain("late").await.cause, Cause::Expired { at });
    let off = bench.explain("off").await;
    assert_eq!(
        off.cause,
        Cause::Cancelled {
            at: at.minus(minutes(1))
        }
    );
    bench.clock.advance(minutes(60));
    let explained = bench.explain("done").await;
    let Cause::Unknown {
        is_listed: true,
        remembered_since: Some(since),
    } = explained.cause
    else {
        panic!("{explained:?}");
    };
    assert!(
        since > at && explained.sentence.contains("it ended before"),
        "{explained:?}"
    );
}

#[tokio::test]
async fn sqlite_explains_the_same() {
    let clock = VirtualClock::default();
    let (_folder, store) = sqlite(&clock).await;
    let bench = Bench::on(clock, store);
    bench.send("a", minutes(1)).await;
    bench.send("b", minutes(2)).await;
    let due_at = bench.clock.now().plus(minutes(1));
    let (wait, from) = (minutes(1), WaitsFor::Delay);
    assert_eq!(
        bench.explain("a").await.cause,
        Cause::NotDue { due_at, wait, from }
    );
    bench.clock.advance(minutes(3));
    assert_eq!(
        bench.explain("a").await.cause,
        Cause::Unserved { instances: 0 }
    );
    bench.announce(&[TYPE]).await;
    let explained = bench.explain("b").await;
    assert!(
        matches!(
            explained.cause,
            Cause::Backlog {
                ahead: 1,
                is_exact: true,
                ..
            }
        ),
        "{explained:?}"
    );
    let lock = bench.claim(1, FleetLimits::NONE).await.remove(0);
    assert_eq!(bench.explain("a").await.late, Some(minutes(2)));
    bench.settle(lock, retry(seconds(20))).await;
    assert!(matches!(
        bench.explain("a").await.cause,
        Cause::Retry { attempt: 1, .. }
    ));
    bench.tasks.pause(TYPE, None).await.unwrap();
    assert_eq!(
        bench.explain("b").await.cause,
        Cause::Paused { until: None }
    );
    bench.tasks.close().await;
}

#[tokio::test]
async fn a_timeline_has_each_attempt_and_what_comes_next() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    assert_eq!(timeline(&bench.tasks, TYPE, "a").await.unwrap(), []);
    let job = DelayQueueJob::raw(TYPE, "hi")
        .id("a")
        .after("1m")
        .expires_after("1h");
    bench.tasks.send(job).await.unwrap();
    let sent = bench.clock.now();
    bench.clock.advance(seconds(60));
    let lock = bench.claim(1, FleetLimits::NONE).await.remove(0);
    bench.clock.advance(seconds(2));
    bench.settle(lock, retry(seconds(20))).await;
    let moments = timeline(&bench.tasks, TYPE, "a").await.unwrap();
    let offsets: Vec<_> = moments
        .iter()
        .map(|one| one.at.unwrap().since(sent).as_secs())
        .collect();
    assert_eq!(offsets, [0, 60, 60, 62, 62, 82, 3660]);
    let kinds: Vec<_> = moments.into_iter().map(|moment| moment.kind).collect();
    let MomentKind::Started { holder, .. } = &kinds[2] else {
        panic!("{kinds:?}");
    };
    let holder = holder.clone();
    assert_eq!(holder.as_ref().unwrap().instance, bench.worker.short());
    let started = |attempt, holder, due: Duration, late| MomentKind::Started {
        attempt,
        holder,
        due_at: Some(sent.plus(due)),
        late: Some(late),
    };
    let failed = MomentKind::Failed {
        attempt: 1,
        error: "no van. sorry".to_owned(),
        holder: holder.clone(),
    };
    let next = MomentKind::Next { attempt: 2 };
    let (due, now) = (MomentKind::Due, MomentKind::Now);
    assert_eq!(
        kinds,
        [
            MomentKind::Submitted,
            due,
            started(1, holder.clone(), minutes(1), Duration::ZERO),
            failed,
            now,
            next,
            MomentKind::Expires
        ]
    );
    bench.clock.advance(seconds(25));
    bench.claim(1, FleetLimits::NONE).await;
    let moments = timeline(&bench.tasks, TYPE, "a").await.unwrap();
    let second = started(2, holder, seconds(82), seconds(5));
    assert!(moments.iter().any(|one| one.kind == second), "{moments:?}");
}

#[tokio::test]
async fn a_timeline_has_who_held_a_lost_lock_and_when_the_last_attempt_started() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    bench.send("a", Duration::ZERO).await;
    bench.clock.advance(seconds(3));
    bench.claim(1, FleetLimits::NONE).await;
    // The holder is no longer announced.
    bench.tasks.store().withdraw(&bench.worker).await.unwrap();
    let own = bench.worker.short();
    let is_own = |holder: &Option<Holder>| holder.as_ref().is_some_and(|one| one.instance == own);
    let moments = timeline(&bench.tasks, TYPE, "a").await.unwrap();
    let started = |kind: &MomentKind| match kind {
        MomentKind::Started { holder, late, .. } => is_own(holder).then_some(*late)?,
        _ => None,
    };
    let late: Vec<_> = moments
        .iter()
        .filter_map(|one| started(&one.kind))
        .collect();
    assert_eq!(late, [seconds(3)], "{moments:?}");

    bench.clock.advance(minutes(11));
    let lock = bench.claim(1, FleetLimits::NONE).await.remove(0);
    let moments = timeline(&bench.tasks, TYPE, "a").await.unwrap();
    let is_expiry = |kind: &MomentKind| match kind {
        MomentKind::Failed { holder, .. } => is_own(holder),
        _ => false,
    };
    let expiries = moments.iter().filter(|one| is_expiry(&one.kind));
    assert_eq!(expiries.count(), 1, "{moments:?}");

    let started = bench.clock.now();
    bench.clock.advance(seconds(5));
    bench.settle(lock, AttemptEnd::Done).await;
    let ended = bench.clock.now();
    let moments = timeline(&bench.tasks, TYPE, "a").await.unwrap();
    let told = moments.iter().map(|one| (one.at.unwrap(), &*one.text));
    let told: Vec<_> = told.take(2).collect();
    assert_eq!(told, [(started, "attempt 2 started"), (ended, "done")]);
}
