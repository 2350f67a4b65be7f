//! How tasks are put into calls, and whose outcome is whose.

use std::time::Duration;

use delayq_core::store::Wakeup;
use delayq_core::{DelayQueueJob, Namespace, TaskType, Timestamp};

use super::*;
use crate::scripts::{Keyspace, ShardId};

fn waiter(name: &str, tasks: &[(&str, usize)]) -> Waiter {
    let keys = Keyspace::new(Namespace::default());
    let task_type = TaskType::new(name).unwrap();
    let prepared = tasks.iter().map(|(id, bytes)| {
        let limits = delayq_core::Limits {
            max_message_bytes: usize::MAX,
            ..Default::default()
        };
        let message = vec![b'x'; bytes - 20];
        let job = DelayQueueJob::raw(name, message).id(*id);
        let task = job.into_task(&limits, Timestamp::ZERO).unwrap();
        Prepared::new(&task)
    });
    Waiter {
        tasks: prepared.collect(),
        keys: Arc::new(keys.shard(&task_type, ShardId::WHOLE)),
        wake: Arc::new(WakeCall {
            channel: String::new(),
            message: String::new(),
        }),
        deadline: Instant::now(),
        reply: Some(oneshot::channel().0),
    }
}

fn calls(waiters: Vec<Waiter>) -> Vec<Vec<usize>> {
    let groups = Group::all(waiters);
    let sizes = groups
        .iter()
        .map(|group| group.calls.iter().map(|call| call.items.len()));
    sizes.map(Iterator::collect).collect()
}

#[test]
fn a_call_takes_the_tasks_of_several_submitters_of_one_shard_with_different_ids() {
    let ids: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let many: Vec<(&str, usize)> = ids.iter().map(|id| (id.as_str(), 40)).collect();
    let all = calls(vec![waiter("a", &many[..100]), waiter("a", &many[100..])]);
    assert_eq!(all, [[MAX_BATCH, MAX_BATCH, 300 - 2 * MAX_BATCH]]);
    let two = ["a", "b", "a"].map(|name| waiter(name, &[("1", 40)]));
    assert_eq!(calls(two.into()), [vec![1, 1], vec![1]]);
    let twice = waiter("a", &[("1", 40), ("2", 40), ("1", 40), ("3", 40)]);
    assert_eq!(calls(vec![twice]), [[2, 2]]);
}

type Landings = oneshot::Receiver<Vec<Result<Landing>>>;

/// A waiter, and where its answer comes.
fn answered(ids: &[&str]) -> (Waiter, Landings) {
    let tasks: Vec<(&str, usize)> = ids.iter().map(|id| (*id, 40)).collect();
    let (reply, landings) = oneshot::channel();
    let waiter = Waiter {
        reply: Some(reply),
        ..waiter("a", &tasks)
    };
    (waiter, landings)
}

/// An answer of the script: each word is the outcome of one task, due at its place from 1 on.
fn reply(is_new: bool, words: &[&str]) -> RespValue {
    let mut fields = vec![RespValue::Int(is_new.into()), RespValue::Int(0)];
    for (nth, word) in words.iter().enumerate() {
        let due_ms = i64::try_from(nth).unwrap() + 1;
        let word = RespValue::Bytes(word.as_bytes().to_vec());
        fields.extend([word, RespValue::Int(1), RespValue::Int(due_ms)]);
    }
    RespValue::List(fields)
}

/// What became of each task, in words.
fn told(landings: &mut Landings) -> Vec<String> {
    let landings = landings.try_recv().unwrap().into_iter();
    let told = landings.map(|landing| match landing {
        Ok(Landing::Here(SubmitOutcome::Accepted { due_at, .. })) => format!("here {due_at:?}"),
        Ok(Landing::New(SubmitOutcome::Accepted { due_at, .. })) => format!("new {due_at:?}"),
        Ok(Landing::Sealed(task)) => format!("sealed {}", task.least_fence),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    });
    told.collect()
}

fn here(due_ms: i64) -> String {
    format!("here {:?}", Timestamp::from_millis(due_ms))
}

#[test]
fn each_submitter_gets_the_outcomes_of_its_own_tasks() {
    let hub = WakeupHub::new(false);
    let (one, mut to_one) = answered(&["1", "2"]);
    let (other, mut to_other) = answered(&["2", "3"]);
    let mut groups = Group::all(vec![one, other]);
    let group = groups.remove(0);
    // The repeated id goes with a call of its own, and what follows it, too.
    assert_eq!(group.calls(), 2);
    let answers = vec![
        Ok(reply(false, &["a", "m"])),
        Ok(reply(true, &["f8/9", "a"])),
    ];
    group.answer(answers, &hub);
    assert_eq!(told(&mut to_one), [here(1), "sealed 2".to_owned()]);
    let full = Error::QueueFull {
        task_type: "a".to_owned(),
        pending: 8,
        limit: 9,
    };
    let new = here(2).replace("here", "new");
    assert_eq!(told(&mut to_other), [full.to_string(), new]);
}

#[test]
fn a_call_that_fails_fails_its_own_tasks_and_a_missing_answer_is_no_success() {
    let hub = WakeupHub::new(false);
    let (one, mut to_one) = answered(&["1", "1", "1"]);
    let group = Group::all(vec![one]).remove(0);
    let failed = Error::Closed("a test");
    group.answer(vec![Ok(reply(false, &["a"])), Err(failed.clone())], &hub);
    let lost = Error::Closed("the Redis store").to_string();
    assert_eq!(told(&mut to_one), [here(1), failed.to_string(), lost]);
}

#[test]
fn one_that_was_answered_too_late_does_not_shift_the_outcomes_of_the_others() {
    let hub = WakeupHub::new(false);
    let (first, mut to_first) = answered(&["1", "2"]);
    let (mut second, mut to_second) = answered(&["3"]);
    second.deadline = first.deadline + Duration::from_secs(1);
    let (at, later) = (first.deadline, second.deadline);
    let mut group = Group::all(vec![first, second]).remove(0);
    assert_eq!(group.next_deadline(), Some(at));
    let late = Error::Closed("a test");
    group.fail_late(at, &late);
    assert_eq!(told(&mut to_first), [late.to_string(), late.to_string()]);
    assert_eq!(group.next_deadline(), Some(later));
    group.answer(vec![Ok(reply(false, &["a", "a", "a"]))], &hub);
    assert_eq!(told(&mut to_second), [here(3)]);
}

#[tokio::test]
async fn a_first_due_time_that_became_earlier_wakes_the_bucket_here() {
    let hub = WakeupHub::new(false);
    let mut wakeups = hub.subscribe();
    let (waiter, _landings) = answered(&["1"]);
    let bucket = waiter.keys.bucket.clone();
    let group = Group::all(vec![waiter]).remove(0);
    let earlier = RespValue::List(vec![RespValue::Int(0), RespValue::Int(1)]);
    group.answer(vec![Ok(earlier)], &hub);
    assert_eq!(wakeups.next().await, Some(Wakeup::Bucket(bucket)));
}

#[test]
fn a_call_takes_so_many_bytes_but_at_least_one_task() {
    const HALF: usize = 500_000;
    let sizes = [
        ("1", HALF),
        ("2", HALF),
        ("3", HALF),
        ("4", 2 * HALF),
        ("5", 40),
    ];
    assert_eq!(calls(vec![waiter("a", &sizes)]), [[2, 1, 2]]);
}
