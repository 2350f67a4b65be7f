//! Fleet limits, applied in the claim over all claimers.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use delayq_core::store::{AttemptEnd, ClaimRequest};
use delayq_core::{
    DelayQueueJob, FleetLimits, Rate, TaskState, TaskType, Timestamp, hours, millis,
};

use super::micros::micros;
use super::rig::{LONG, Rig, Round, SHORT, job, release, retry, usual_type};

/// A rate that allows nothing more during a test once its burst is used up.
const ONE_AN_HOUR: Rate = Rate::per_hour(1);

async fn limited(rig: &Rig, fleet: FleetLimits) -> ClaimRequest {
    rig.request().await.fleet(fleet)
}

async fn claim_with(rig: &Rig, fleet: FleetLimits) -> Round {
    rig.claim_as(&limited(rig, fleet).await).await
}

fn at_most(concurrency: u32) -> FleetLimits {
    FleetLimits {
        concurrency: Some(concurrency),
        rate: None,
    }
}

fn paced(rate: Rate) -> FleetLimits {
    FleetLimits {
        concurrency: None,
        rate: Some(rate),
    }
}

async fn accept_many(rig: &Rig, tasks: usize) {
    for n in 0..tasks {
        rig.accept(job(&format!("{n:03}"))).await;
    }
}

/// Asserts the time of the next claim, to the millisecond, from times in microseconds.
fn assert_next(claimed: &Round, expected: RangeInclusive<i64>) {
    let whole_ms = |micros: i64| Timestamp::from_millis((micros + 999) / 1_000);
    let expected = whole_ms(*expected.start())..=whole_ms(*expected.end());
    let next = claimed.next_at().unwrap();
    assert!(expected.contains(&next), "{next} is not in {expected:?}");
}

async fn running(rig: &Rig) -> u64 {
    rig.store().stats(&usual_type()).await.unwrap().running
}

pub async fn no_more_tasks_run_than_the_fleets_limit(rig: &Rig) {
    accept_many(rig, 8).await;
    let first = claim_with(rig, at_most(3)).await;
    first.assert_order(&["000", "001", "002"]);
    assert!(claim_with(rig, at_most(3)).await.tasks.is_empty());
    rig.settled(&first.tasks[1].lock, AttemptEnd::Done).await;
    rig.settled(&first.tasks[2].lock, retry(LONG)).await;
    let second = claim_with(rig, at_most(3)).await;
    second.assert_order(&["003", "004"]);
    assert_eq!(running(rig).await, 3);
}

pub async fn every_way_to_end_an_attempt_frees_its_place(rig: &Rig) {
    for (n, end) in super::rig::every_end().into_iter().enumerate() {
        rig.accept(job(&format!("{n}-first"))).await;
        rig.accept(job(&format!("{n}-second")).after(SHORT)).await;
        rig.pass(SHORT).await;
        let claimed = claim_with(rig, at_most(1)).await;
        claimed.assert_order(&[&format!("{n}-first")]);
        rig.settled(&claimed.tasks[0].lock, end).await;
        let claimed = claim_with(rig, at_most(1)).await;
        claimed.assert_order(&[&format!("{n}-second")]);
        rig.settled(&claimed.tasks[0].lock, release(LONG)).await;
    }
}

pub async fn a_lock_that_is_taken_over_keeps_its_place(rig: &Rig) {
    accept_many(rig, 4).await;
    let first = claim_with(rig, at_most(2)).await;
    rig.expire(&first.tasks[0].lock).await;
    let second = claim_with(rig, at_most(2)).await;
    second.assert_order(&["000"]);
    assert_eq!(second.tasks[0].attempt, 2);
    assert_eq!(running(rig).await, 2);
    rig.expire(&second.tasks[0].lock).await;
    // Also if the limit has become smaller meanwhile.
    assert_eq!(claim_with(rig, at_most(1)).await.ids(), ["000"]);
    assert!(claim_with(rig, at_most(1)).await.tasks.is_empty());
}

pub async fn a_claim_without_a_free_place_waits_for_the_first_lock_to_end(rig: &Rig) {
    accept_many(rig, 3).await;
    let first = claim_with(rig, at_most(2)).await;
    let lock_until = first.tasks.iter().map(|task| task.lock_until).min();
    assert_eq!(first.next_at(), lock_until);
    assert_eq!(claim_with(rig, at_most(2)).await.next_at(), lock_until);
    rig.settled(&first.tasks[0].lock, AttemptEnd::Done).await;
    let mut none = limited(rig, at_most(2)).await;
    none.limit = 0;
    assert!(rig.claim_as(&none).await.is_more_due(), "a slot is free");
}

pub async fn a_claim_without_a_free_place_still_names_what_is_due_later(rig: &Rig) {
    rig.accept(job("now")).await;
    let later = rig.accept(job("later").after(LONG / 2)).await;
    let claimed = claim_with(rig, at_most(1)).await;
    assert_eq!(claimed.ids(), ["now"]);
    assert_eq!(claimed.next_at(), Some(later));
}

pub async fn a_poison_task_leaves_its_place_to_another(rig: &Rig) {
    accept_many(rig, 2).await;
    let first = claim_with(rig, at_most(1)).await;
    rig.expire(&first.tasks[0].lock).await;
    let request = limited(rig, at_most(1)).await.max_lock_expiries(1);
    let claimed = rig.claim_as(&request).await;
    assert_eq!((claimed.tasks.len(), claimed.ended.len()), (0, 1));
    assert!(claimed.is_more_due(), "a slot is free");
    assert_eq!(claim_with(rig, at_most(1)).await.ids(), ["001"]);
    assert_eq!(rig.state("000").await, Some(TaskState::Dead));
}

pub async fn each_claimer_keeps_to_its_own_limits(rig: &Rig) {
    accept_many(rig, 9).await;
    assert_eq!(claim_with(rig, at_most(2)).await.tasks.len(), 2);
    assert_eq!(claim_with(rig, at_most(1)).await.tasks.len(), 0);
    assert_eq!(claim_with(rig, at_most(5)).await.tasks.len(), 3);
    // A limit of 0 counts as 1, or nothing would ever run.
    assert_eq!(claim_with(rig, at_most(0)).await.tasks.len(), 0);
    assert_eq!(rig.claim().await.tasks.len(), 4);
}

pub async fn the_limits_of_one_type_leave_others_alone(rig: &Rig) {
    accept_many(rig, 2).await;
    let fleet = FleetLimits {
        concurrency: Some(1),
        rate: Some(ONE_AN_HOUR),
    };
    let request = limited(rig, fleet).await;
    assert_eq!(rig.claim_as(&request).await.tasks.len(), 1);
    let other = TaskType::new("gift.refund").unwrap();
    rig.accept(DelayQueueJob::raw(other.as_str(), "m")).await;
    let claimed = rig.claim_of(&other, &request).await;
    assert_eq!(claimed.tasks.len(), 1);
}

pub async fn claims_at_the_same_time_keep_the_fleets_limit(rig: &Rig) {
    accept_many(rig, 60).await;
    for (fleet, most) in [(at_most(7), 7), (paced(ONE_AN_HOUR.with_burst(5)), 5)] {
        let request = limited(rig, fleet).await;
        let (a, b, c, d) = tokio::join!(
            rig.claim_as(&request),
            rig.claim_as(&request),
            rig.claim_as(&request),
            rig.claim_as(&request),
        );
        let taken = [a, b, c, d].into_iter().flat_map(|claimed| claimed.tasks);
        assert_eq!(taken.count(), most);
    }
}

pub async fn a_rate_starts_its_burst_and_then_nothing(rig: &Rig) {
    accept_many(rig, 6).await;
    let rate = ONE_AN_HOUR.with_burst(4);
    let request = limited(rig, paced(rate)).await;
    let mut one = request.clone();
    one.limit = 1;
    let before = micros(rig).await;
    let first = rig.claim_as(&one).await;
    let after = micros(rig).await;
    first.assert_order(&["000"]);
    assert!(first.is_more_due(), "three more");
    let rest = rig.claim_as(&request).await;
    rest.assert_order(&["001", "002", "003"]);
    let held_back = rig.claim_as(&request).await;
    assert!(held_back.tasks.is_empty());
    // The next start counts from the first one.
    assert_next(&held_back, before + 3_600_000_000..=after + 3_600_000_000);
    assert_eq!(rig.store().stats(&usual_type()).await.unwrap().due, 2);
}

pub async fn a_claim_without_a_start_left_waits_until_a_few_have_gathered(rig: &Rig) {
    // The wait in microseconds: for half of the burst, or for as many as start within 50 ms.
    let rates = [
        (Rate::per_hour(3).with_burst(4), 1_200_000_000),
        (Rate::per_second(100).with_burst(10), 50_000),
        (Rate::per_second(100).with_burst(3), 10_000),
        (Rate::per_second(30).with_burst(10), 33_334),
    ];
    for (rate, wait) in rates {
        let rig = rig.with_retention(LONG).await;
        accept_many(&rig, 11).await;
        let began = Instant::now();
        let before = micros(&rig).await;
        let claimed = claim_with(&rig, paced(rate)).await;
        let after = micros(&rig).await;
        assert_eq!(claimed.tasks.len(), rate.burst as usize);
        assert_next(&claimed, before + wait..=after + wait);
        let too_early = claim_with(&rig, paced(rate)).await;
        if began.elapsed() < rate.per / rate.starts {
            assert_eq!(too_early.tasks, [], "{rate:?}");
        }
        rig.finish().await;
    }
}

pub async fn a_rate_starts_one_task_each_interval(rig: &Rig) {
    const INTERVAL: Duration = millis(25);
    const TASKS: usize = 6;
    accept_many(rig, TASKS).await;
    let rate = Rate::new(1, INTERVAL).with_burst(1);
    let mut starts = Vec::new();
    while starts.len() < TASKS {
        let claimed = claim_with(rig, paced(rate)).await;
        assert_eq!(claimed.tasks.len(), 1, "whoever comes when told gets one");
        starts.push(claimed.store_now());
        let Some(next) = claimed.next_at().filter(|_| starts.len() < TASKS) else {
            break;
        };
        assert!(!claimed.is_more_due(), "told to spin");
        rig.reach(next).await;
    }
    for pair in starts.windows(2) {
        // Both are whole milliseconds of a finer clock.
        assert!(pair[1].since(pair[0]) + millis(1) > INTERVAL, "{starts:?}");
    }
}

pub async fn starts_that_nobody_used_gather_up_to_the_burst(rig: &Rig) {
    accept_many(rig, 20).await;
    let rate = Rate::new(1, millis(5)).with_burst(3);
    assert_eq!(claim_with(rig, paced(rate)).await.tasks.len(), 3);
    rig.pass(millis(50)).await;
    assert_eq!(claim_with(rig, paced(rate)).await.tasks.len(), 3);
}

pub async fn a_lock_that_is_taken_over_is_a_start(rig: &Rig) {
    accept_many(rig, 2).await;
    let fleet = paced(ONE_AN_HOUR.with_burst(3));
    let first = claim_with(rig, fleet).await;
    assert_eq!(first.tasks.len(), 2);
    for task in &first.tasks {
        rig.expire(&task.lock).await;
    }
    let second = claim_with(rig, fleet).await;
    assert_eq!(second.tasks.len(), 1, "the third start of three");
    assert_eq!(second.tasks[0].attempt, 2);
    let third = claim_with(rig, fleet).await;
    assert!(third.tasks.is_empty());
    assert!(!third.is_more_due(), "told to spin");
}

pub async fn a_task_that_is_ended_unstarted_is_no_start(rig: &Rig) {
    rig.accept(job("0").expires_after(Duration::ZERO)).await;
    rig.accept(job("1")).await;
    rig.pass(SHORT).await;
    let fleet = paced(ONE_AN_HOUR);
    let mut started = Vec::new();
    for _ in 0..2 {
        started.extend(claim_with(rig, fleet).await.tasks);
    }
    assert_eq!(started.len(), 1);
    assert_eq!(rig.state("0").await, Some(TaskState::Expired));
}

pub async fn another_rate_is_kept_from_its_first_claim_on(rig: &Rig) {
    accept_many(rig, 9).await;
    let slow = paced(ONE_AN_HOUR.with_burst(2));
    assert_eq!(claim_with(rig, slow).await.tasks.len(), 2);
    assert_eq!(claim_with(rig, slow).await.tasks.len(), 0);
    // The hours that the slow rate would have to wait do not delay a faster one for long.
    let fast = paced(Rate::new(2, 2 * SHORT).with_burst(1));
    let claimed = claim_with(rig, fast).await;
    let soon = claimed.now().plus(hours(1) / 100);
    assert!(claimed.next_at().is_some_and(|next| next <= soon));
    rig.pass(SHORT + millis(1)).await;
    assert_eq!(claim_with(rig, fast).await.tasks.len(), 1);
}

pub async fn both_limits_hold_together(rig: &Rig) {
    accept_many(rig, 9).await;
    let fleet = FleetLimits {
        concurrency: Some(3),
        rate: Some(ONE_AN_HOUR.with_burst(4)),
    };
    let first = claim_with(rig, fleet).await;
    assert_eq!(first.tasks.len(), 3);
    for task in &first.tasks {
        rig.settled(&task.lock, AttemptEnd::Done).await;
    }
    assert_eq!(claim_with(rig, fleet).await.tasks.len(), 1);
    assert_eq!(claim_with(rig, fleet).await.tasks.len(), 0);
}
