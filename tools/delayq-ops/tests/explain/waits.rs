//! Why a task that is scheduled waits.

use std::sync::Arc;
use std::time::Duration;

use delayq_ops::{Cause, Explanation, explain};
use delayq_plugin::store::AttemptEnd;
use delayq_plugin::{
    ChangeOutcome, Clock, FleetLimits, Rate, TypeSettings, VirtualClock, WaitsFor, minutes, seconds,
};

use crate::bench::{Bench, TYPE, retry};

#[tokio::test]
async fn a_task_that_is_not_due_says_when_it_is() {
    let bench = Bench::new();
    bench.send("a", minutes(30)).await;
    let explained = bench.explain("a").await;
    let (due_at, wait) = (bench.clock.now().plus(minutes(30)), minutes(30));
    let from = WaitsFor::Delay;
    assert_eq!(explained.cause, Cause::NotDue { due_at, wait, from });
    assert_eq!(
        explained.sentence,
        "mail.send a is not due until 2026-01-01T00:30:00.000Z, in 30 min: the time that it was \
         sent for or moved to."
    );
    let json = serde_json::to_value(&explained).unwrap();
    assert_eq!(
        (&json["cause"], &json["wait_ms"]),
        (&"not_due".into(), &1_800_000.into())
    );
}

#[tokio::test]
async fn a_paused_type_comes_before_everything_else() {
    let bench = Bench::new();
    bench.send("a", Duration::ZERO).await;
    bench.clock.advance(seconds(90));
    let until = Some(bench.clock.now().plus(minutes(5)));
    bench.tasks.pause(TYPE, until).await.unwrap();
    let explained = bench.explain("a").await;
    assert_eq!(explained.cause, Cause::Paused { until });
    assert_eq!(explained.late, Some(seconds(90)));
    let said =
        "has been due for 1 min 30 s and waits, as its type is paused until 2026-01-01T00:06";
    assert!(explained.sentence.contains(said), "{explained:?}");
}

#[tokio::test]
async fn a_type_that_no_announced_instance_lists_is_served_by_nobody() {
    let bench = Bench::new();
    bench.send("a", Duration::ZERO).await;
    assert_eq!(
        bench.explain("a").await.cause,
        Cause::Unserved { instances: 0 }
    );
    bench.announce(&["order.cancel"]).await;
    let explained = bench.explain("a").await;
    assert_eq!(explained.cause, Cause::Unserved { instances: 1 });
    bench.announce(&[TYPE]).await;
    assert!(matches!(
        bench.explain("a").await.cause,
        Cause::Next { instances: 1, .. }
    ));
}

#[tokio::test]
async fn a_full_fleet_concurrency_names_the_oldest_run() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    let limit = TypeSettings::default().fleet_concurrency(Some(1));
    for id in ["a", "b"] {
        bench.send(id, Duration::ZERO).await;
    }
    bench.tasks.configure_type(TYPE, &limit).await.unwrap();
    let since = bench.clock.now();
    assert_eq!(bench.claim(2, FleetLimits::NONE).await.len(), 1);
    bench.clock.advance(seconds(5));
    let explained = bench.explain("b").await;
    let Cause::ConcurrencyFull {
        limit,
        running,
        oldest,
    } = explained.cause
    else {
        panic!("{explained:?}");
    };
    let oldest = oldest.unwrap();
    assert_eq!(
        (limit, running, oldest.id.as_str(), oldest.since),
        (Some(1), 1, "a", since)
    );
}

#[tokio::test]
async fn a_fleet_rate_without_a_start_left_is_named() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    let rate = Rate::per_minute(1);
    let limit = TypeSettings::default().fleet_rate(Some(rate));
    for id in ["a", "b"] {
        bench.send(id, Duration::ZERO).await;
    }
    bench.tasks.configure_type(TYPE, &limit).await.unwrap();
    assert_eq!(bench.claim(2, FleetLimits::NONE).await.len(), 1);
    let explained = bench.explain("b").await;
    assert_eq!(explained.cause, Cause::RateReached { limit: Some(rate) });
    assert!(
        explained
            .sentence
            .contains("fleet rate of 1/min allows no start"),
        "{explained:?}"
    );
}

#[tokio::test]
async fn clocks_that_differ_are_the_cause_when_they_disagree_about_the_due_time() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    bench.send("a", minutes(30)).await;
    let host = VirtualClock::new(bench.clock.now().plus(minutes(40)));
    let ahead = bench.tasks.clone().with_clock(Arc::new(host));
    let explained = explain(&ahead, TYPE, "a").await.unwrap();
    assert!(
        matches!(explained.cause, Cause::ClocksDiffer { .. }),
        "{explained:?}"
    );
    assert!(
        explained
            .sentence
            .contains("the store's clock is 2400s behind"),
        "{explained:?}"
    );
    let host = VirtualClock::new(bench.clock.now());
    bench.clock.advance(minutes(31));
    let behind = bench.tasks.clone().with_clock(Arc::new(host));
    let explained = explain(&behind, TYPE, "a").await.unwrap();
    assert!(
        matches!(explained.cause, Cause::ClocksDiffer { .. }),
        "{explained:?}"
    );
    assert!(matches!(bench.explain("a").await.cause, Cause::Next { .. }));
}

#[tokio::test]
async fn a_backlog_is_counted_and_timed_by_the_pace_of_the_last_minutes() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    for id in 0..30 {
        bench.send(&format!("t{id}"), seconds(id)).await;
    }
    bench.clock.advance(minutes(1));
    let ahead = |explained: &Explanation| match &explained.cause {
        Cause::Backlog {
            ahead,
            is_exact,
            pace,
            wait,
            ..
        } => (*ahead, *is_exact, *pace, *wait),
        _ => panic!("{explained:?}"),
    };
    assert_eq!(ahead(&bench.explain("t29").await), (29, true, None, None));
    let running = bench.claim(5, FleetLimits::NONE).await;
    bench.figures(minutes(8), 12).await;
    let explained = bench.explain("t29").await;
    let (_, _, pace, wait) = ahead(&explained);
    assert_eq!((pace.unwrap().per_second, wait), (0.0, None));
    let oldest = "24 tasks stand before it and 5 run (the oldest, t0, since ";
    assert!(explained.sentence.contains(oldest), "{explained:?}");
    assert!(explained.sentence.contains("none ended within the last"));
    for lock in running {
        bench.settle(lock, AttemptEnd::Done).await;
    }
    bench.figures(minutes(1), 180).await;
    let explained = bench.explain("t29").await;
    let (ahead, _, pace, wait) = ahead(&explained);
    let pace = pace.unwrap();
    assert!(
        (0.5..=0.6).contains(&pace.per_second),
        "180 in 5 to 6 minutes: {pace:?}"
    );
    let wait = wait.unwrap();
    assert!(
        ahead == 24 && (seconds(40)..=seconds(48)).contains(&wait),
        "{wait:?}"
    );
    let sentence = "24 tasks stand before it and 0 run, which takes about 4";
    assert!(explained.sentence.contains(sentence), "{explained:?}");
}

/// The tasks of a type's first minutes were divided by five minutes: a wait of one minute was said
/// to take five.
#[tokio::test]
async fn a_type_that_began_a_minute_ago_has_the_pace_of_that_minute() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    for id in 0..30 {
        bench.send(&format!("t{id}"), seconds(id)).await;
    }
    bench.clock.advance(minutes(1));
    bench.figures(minutes(1), 60).await;
    let Cause::Backlog { pace, .. } = bench.explain("t29").await.cause else {
        panic!("it is a backlog");
    };
    let pace = pace.unwrap();
    assert!(
        (0.5..=1.0).contains(&pace.per_second),
        "60 in 1 to 2 minutes: {pace:?}"
    );
}

#[tokio::test]
async fn a_retry_says_when_and_after_what() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    bench.send("a", Duration::ZERO).await;
    let lock = bench.claim(1, FleetLimits::NONE).await.remove(0);
    bench.settle(lock, retry(seconds(20))).await;
    let explained = bench.explain("a").await;
    let Cause::Retry {
        due_at,
        wait,
        attempt,
        failed_at,
        error,
    } = &explained.cause
    else {
        panic!("{explained:?}");
    };
    let now = bench.clock.now();
    assert_eq!(
        (*due_at, *wait, *attempt),
        (now.plus(seconds(20)), seconds(20), 1)
    );
    assert_eq!(
        (*failed_at, error.as_deref()),
        (Some(now), Some("no van.\nsorry"))
    );
    assert!(
        explained
            .sentence
            .ends_with("as attempt 1 failed with: no van. sorry."),
        "{explained:?}"
    );
}

#[tokio::test]
async fn a_release_and_a_requeue_say_where_the_due_time_comes_from() {
    let bench = Bench::new();
    bench.announce(&[TYPE]).await;
    bench.send("a", Duration::ZERO).await;
    let lock = bench.claim(1, FleetLimits::NONE).await.remove(0);
    let (after, succeeded) = (seconds(20), Vec::new());
    bench
        .settle(lock, AttemptEnd::Release { after, succeeded })
        .await;
    let from = |explained: Explanation| match explained.cause {
        Cause::NotDue { from, .. } => from,
        _ => panic!("{explained:?}"),
    };
    assert_eq!(from(bench.explain("a").await), WaitsFor::Release);
    bench.clock.advance(after);
    let lock = bench.claim(1, FleetLimits::NONE).await.remove(0);
    let (error, succeeded) = ("gone".to_owned(), Vec::new());
    bench
        .settle(lock, AttemptEnd::Dead { error, succeeded })
        .await;
    let explained = bench.explain("a").await;
    assert!(
        matches!(&explained.cause, Cause::Dead { attempt: 1, error: Some(error), .. } if error == "gone")
    );
    let all = delayq_plugin::DeadFilter::all();
    bench
        .tasks
        .requeue_dead(TYPE, &all, Duration::ZERO)
        .await
        .unwrap();
    let when = delayq_plugin::When::After(minutes(1));
    let moved = bench.tasks.reschedule(TYPE, "a", when).await.unwrap();
    assert!(matches!(moved, ChangeOutcome::Changed { .. }));
    assert_eq!(from(bench.explain("a").await), WaitsFor::Requeue);
}
