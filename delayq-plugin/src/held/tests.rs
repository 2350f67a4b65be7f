use std::future::pending;

use delayq_core::{TaskId, seconds};

use super::*;

const LOCK: Duration = seconds(30);
const LIMIT: Duration = seconds(100);

/// An attempt whose claim was sent at 1 s and whose worker started at 2 s; its number is 0.
fn one() -> (HeldLocks, Lock) {
    let lock = Lock {
        id: TaskId::new("a").unwrap(),
        fence: 7,
    };
    let mut held = HeldLocks::new(LOCK, LIMIT);
    let new = NewHold {
        lock: lock.clone(),
        attempt: 1,
        trail: Trail::default(),
        cancel: CancellationToken::new(),
        running: Running::single(tokio::spawn(pending::<()>()).abort_handle()),
        run_out: held.run_out_of(seconds(1)),
        claimed_at: seconds(1),
        started_at: seconds(2),
    };
    held.add(new);
    (held, lock)
}

fn extends(held: &mut HeldLocks, now: u64) -> bool {
    let due = held.take_due(seconds(now));
    assert_eq!((due.run_out.len(), due.timed_out.len()), (0, 0));
    !due.extend.is_empty()
}

fn extends_again(held: &mut HeldLocks, now: u64) -> bool {
    let due = held.take_due(seconds(now));
    assert!(due.extend.is_empty() && due.run_out.is_empty());
    !due.again.is_empty()
}

#[tokio::test]
async fn a_lock_is_extended_by_thirds_tried_again_after_a_failure_and_given_up_at_its_end() {
    let (mut held, _) = one();
    assert_eq!(held.next_timer(), Some(seconds(11)));
    assert!(!extends(&mut held, 10) && extends(&mut held, 11));
    assert_eq!(held.next_timer(), Some(seconds(31)), "its end, meanwhile");
    held.extended(0, seconds(11));
    assert_eq!(held.next_timer(), Some(seconds(21)));
    assert!(extends(&mut held, 21));
    held.extend_failed(0, seconds(22));
    assert_eq!(held.next_timer(), Some(seconds(22)));
    assert!(extends_again(&mut held, 22), "beside the others");
    assert_eq!(held.take_due(seconds(41)).run_out, [0]);
    held.extend_failed(0, seconds(42));
    assert_eq!(held.next_timer(), Some(seconds(102)), "its time limit");
    assert_eq!(held.take_due(seconds(102)).timed_out, [0]);
    assert_eq!((held.next_timer(), held.len()), (None, 1));
}

#[tokio::test]
async fn a_lost_lock_is_news_once_and_known_until_it_is_settled() {
    let (mut held, lock) = one();
    assert!(!held.settled(&lock), "nothing is known of it");
    assert!(held.lose(0) && !held.lose(0));
    assert!(held.settled(&lock) && !held.settled(&lock));
}

#[tokio::test]
async fn an_attempt_whose_time_is_up_is_settled_once_its_worker_is_gone_or_soon() {
    let limit = seconds(102);
    let (mut held, _) = one();
    assert!(extends(&mut held, 11));
    held.extended(0, seconds(90));
    assert!(extends(&mut held, 100));
    assert!(!extends(&mut held, 102), "its worker is stopped");
    assert_eq!(held.next_timer(), Some(limit + STOPPED_WITHIN));
    assert_eq!(held.take_due(limit + STOPPED_WITHIN).timed_out, [0]);
    assert_eq!((held.next_timer(), held.len()), (None, 1));
    let (mut held, _) = one();
    assert!(extends(&mut held, 11));
    held.extended(0, seconds(72) + Duration::from_millis(400));
    assert!(extends(&mut held, 101) && !extends(&mut held, 102));
    let half = Duration::from_millis(200);
    assert_eq!(held.next_timer(), Some(limit + half), "its lock is short");
    let task = *held.by_task.keys().next().unwrap();
    assert!(held.remove(task).unwrap().is_stopping());
    assert_eq!((held.next_timer(), held.len()), (None, 0));
}

/// Found in review: the end of its worker was then taken for that of the runtime.
#[tokio::test]
async fn an_attempt_whose_time_is_up_stays_so_though_its_lock_is_found_lost() {
    let (mut held, lock) = one();
    assert!(extends(&mut held, 11));
    held.extended(0, seconds(90));
    assert!(extends(&mut held, 100) && !extends(&mut held, 102));
    assert!(
        !held.lose(0) && !held.settled(&lock),
        "its settlement tells"
    );
    let task = *held.by_task.keys().next().unwrap();
    assert!(held.remove(task).unwrap().is_stopping());
}
