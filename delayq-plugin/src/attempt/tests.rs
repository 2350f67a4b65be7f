use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_core::store::AttemptEnd;
use delayq_core::worker::{Attempt, StopSignal};
use delayq_core::{
    AttemptHistory, Clock, Lock, RetryPolicy, TaskContext, TaskError, TaskId, TaskResult, TaskType,
    TaskWorker, Timestamp, TypePattern, VirtualClock, WorkerOptions, seconds,
};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::LeaseDeadline;
use super::lease::STOPPED_WITHIN;
use super::*;
use crate::events::FailureCause;
use crate::slots::Slots;
use crate::submit::TaskSubmitService;
use crate::workers::{TypeWorkers, Worker};

/// Counts its runs.
#[derive(Default)]
struct Counting(Arc<AtomicUsize>);

#[async_trait]
impl TaskWorker for Counting {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn worker(index: usize, options: WorkerOptions, runs: &Arc<AtomicUsize>) -> Worker {
    Worker {
        name: format!("w{index}").into(),
        pattern: TypePattern::new("a").unwrap(),
        options,
        code: Arc::new(Counting(Arc::clone(runs))),
    }
}

fn end(max_attempts: &[u32], attempt: u32, results: Vec<TaskResult>) -> AttemptEnd {
    let build = |(index, max_attempts): (usize, &u32)| {
        let retry = RetryPolicy {
            max_attempts: *max_attempts,
            jitter_percent: 0,
            ..RetryPolicy::DEFAULT
        };
        let options = WorkerOptions {
            retry,
            ..WorkerOptions::DEFAULT
        };
        worker(index, options, &Arc::default())
    };
    let workers = TypeWorkers::new(max_attempts.iter().enumerate().map(build).collect());
    let results = results.into_iter().enumerate();
    let results = results.map(|(index, result)| WorkerResult { index, result });
    let facts = AttemptFacts {
        workers: &workers,
        tried: attempt,
        history: &AttemptHistory::default(),
        is_stopped: false,
    };
    Verdict::of_results(facts, results.collect())
}

#[test]
fn a_task_is_released_as_often_as_its_worker_allows_and_then_dead() {
    let options = WorkerOptions {
        max_releases: 3,
        ..WorkerOptions::DEFAULT
    };
    let workers = TypeWorkers::new(vec![worker(0, options, &Arc::default())]);
    let released = |releases, is_stopped| {
        let mut history = AttemptHistory::default();
        history.releases = releases;
        let result = Err(TaskError::release(seconds(5)));
        let facts = AttemptFacts {
            workers: &workers,
            tried: 1,
            history: &history,
            is_stopped,
        };
        Verdict::of_results(facts, vec![WorkerResult { index: 0, result }])
    };
    let again = AttemptEnd::Release {
        after: seconds(5),
        succeeded: Vec::new(),
    };
    assert_eq!(released(2, false), again);
    assert_eq!(released(3, true), again, "the worker did not ask for it");
    let error = "it was released 3 times, and max_releases is 3: return \
                 TaskError::retry_after(..) to wait for what fails, or raise max_releases";
    assert_eq!(released(3, false), dead(error, &[]));
}

fn retry(after: u64, error: &str, succeeded: &[&str]) -> AttemptEnd {
    AttemptEnd::Retry {
        after: seconds(after),
        error: error.into(),
        succeeded: succeeded.iter().map(ToString::to_string).collect(),
    }
}

fn dead(error: &str, succeeded: &[&str]) -> AttemptEnd {
    AttemptEnd::Dead {
        error: error.into(),
        succeeded: succeeded.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_last_attempt_is_the_last_one() {
    let failed = || vec![Err(TaskError::retry("x"))];
    assert_eq!(end(&[2], 1, failed()), retry(1, "x", &[]));
    assert_eq!(end(&[2], 2, failed()), dead("x", &[]));
    let later = || vec![Err(TaskError::retry_after(seconds(9), "x"))];
    assert_eq!(end(&[2], 1, later()), retry(9, "x", &[]));
    assert_eq!(end(&[2], 2, later()), dead("x", &[]));
    assert_eq!(
        end(&[9], 1, vec![Err(TaskError::dead("x"))]),
        dead("x", &[])
    );
}

#[test]
fn a_release_burns_no_attempt_even_on_the_last_one() {
    let release = AttemptEnd::Release {
        after: seconds(3),
        succeeded: vec![],
    };
    let results = vec![Err(TaskError::release(seconds(3)))];
    assert_eq!(end(&[1], 1, results), release);
}

#[test]
fn of_several_workers_the_failed_ones_are_retried_and_named() {
    assert_eq!(end(&[5, 5], 1, vec![Ok(()), Ok(())]), AttemptEnd::Done);
    let one_failed = end(&[5, 5], 1, vec![Ok(()), Err(TaskError::retry("x"))]);
    assert_eq!(one_failed, retry(1, "w1: x", &["w0"]));
    let one_dead = end(&[5, 5], 1, vec![Ok(()), Err(TaskError::dead("x"))]);
    assert_eq!(one_dead, dead("w1: x", &["w0"]));
}

/// The circumstances under which the runtime comes to a worker.
#[derive(Clone, Copy)]
struct Case {
    late: Duration,
    is_cancelled: bool,
    at_most_once: bool,
    is_blocking: bool,
}

/// Whether a worker began.
async fn has_begun(case: Case) -> bool {
    let clock = VirtualClock::default();
    let deadline = LeaseDeadline::new(clock.elapsed(), seconds(30));
    clock.advance(case.late);
    let stop = StopSignal::new();
    if case.is_cancelled {
        stop.stop();
    }
    let attempt = Attempt {
        id: TaskId::new("a").unwrap(),
        attempt: 1,
        tried: 1,
        due_at: Timestamp::from_millis(0),
        claimed_at: Timestamp::from_millis(0),
        submitted_at: Timestamp::from_millis(0),
        fence: 1,
        headers: std::collections::BTreeMap::new(),
        task_type: TaskType::new("job").unwrap(),
    };
    let service = TaskSubmitService::new(Arc::new(MemoryStore::default()));
    let invocation = Invocation {
        cx: TaskContext::new(attempt, stop),
        message: Arc::default(),
        worker: 0,
        is_only_worker: true,
        tasks: Arc::new(service.with_clock(Arc::new(clock))),
        deadline: (!case.at_most_once).then_some(deadline),
        suspect: None,
        within: WithinFlag::default(),
    };
    let runs = Arc::default();
    let options = WorkerOptions {
        blocking: case.is_blocking,
        ..WorkerOptions::DEFAULT
    };
    let mut results = JoinSet::new();
    invocation.start(worker(0, options, &runs), &mut results, &Handle::current());
    let result = results.join_next().await.unwrap().unwrap();
    let has_begun = runs.load(Ordering::Relaxed) == 1;
    assert_eq!(result.is_ok(), has_begun, "else it is given back");
    has_begun
}

#[tokio::test]
async fn a_worker_begins_only_while_its_lock_holds_and_at_most_once_in_any_case() {
    for is_blocking in [false, true] {
        let case = |late, is_cancelled, at_most_once| Case {
            late: seconds(late),
            is_cancelled,
            at_most_once,
            is_blocking,
        };
        assert!(has_begun(case(29, false, false)).await);
        assert!(!has_begun(case(30, false, false)).await, "expired");
        assert!(!has_begun(case(1, true, false)).await, "told to stop");
        assert!(has_begun(case(30, true, true)).await, "now or never");
    }
}

#[test]
fn a_task_is_entered_once_until_its_worker_is_gone() {
    let (tasks, id) = (RunningTasks::default(), TaskId::new("a").unwrap());
    let first = tasks.enter(&id);
    assert!(first.is_some() && tasks.enter(&id).is_none());
    drop(first);
    assert!(tasks.enter(&id).is_some());
}

const LOCK: Duration = seconds(30);

/// A lease whose claim was sent at 1 s, with a time limit of 100 s from 2 s on.
fn lease(running: &RunningTasks) -> Lease {
    let lock = Lock {
        id: TaskId::new("a").unwrap(),
        fence: 7,
    };
    let slots = Slots::default();
    let task_type = TaskType::new("job").unwrap();
    let mut place = slots.serve(&task_type, &WorkerOptions::DEFAULT).place();
    place.ask(1, true);
    Lease {
        running_task: running.enter(&lock.id),
        lock,
        attempt: 1,
        history: AttemptHistory::default(),
        stop: StopSignal::new(),
        state: LeaseState::Good,
        results: Vec::new(),
        is_cut_off: false,
        workers: Vec::new(),
        lock_for: LOCK,
        lock_until: Timestamp::from_millis(1),
        submitted_at: Timestamp::ZERO,
        deadline: LeaseDeadline::new(seconds(1), LOCK),
        extend_at: seconds(11),
        is_extension_failed: false,
        is_cancel_requested: false,
        started_at: seconds(2),
        limit_at: seconds(102),
        cause: FailureCause::default(),
        is_alone: AloneFlag::default(),
        within: WithinFlag::default(),
        _member: None,
        _slot: place.take().unwrap().start().unwrap(),
    }
}

fn step(lease: &mut Lease, now: u64) -> Option<LeaseStep> {
    lease.step(seconds(now))
}

#[test]
fn a_lock_is_extended_by_thirds_tried_again_after_a_failure_and_given_up_at_its_end() {
    let mut lease = lease(&RunningTasks::default());
    assert_eq!(lease.timer(), seconds(11));
    assert_eq!(step(&mut lease, 9), None);
    assert_eq!(
        step(&mut lease, 10),
        Some(LeaseStep::Extend),
        "with others, early"
    );
    assert_eq!(lease.timer(), seconds(31), "its end, meanwhile");
    lease.extended(seconds(11), Timestamp::from_millis(2));
    assert_eq!(lease.timer(), seconds(21));
    assert_eq!(step(&mut lease, 21), Some(LeaseStep::Extend));
    lease.extend_again_at(seconds(22));
    assert_eq!(step(&mut lease, 22), Some(LeaseStep::Extend));
    assert_eq!(step(&mut lease, 41), Some(LeaseStep::Expired));
    lease.extend_again_at(seconds(42));
    assert_eq!(lease.timer(), seconds(102), "its time limit");
    assert_eq!(step(&mut lease, 102), Some(LeaseStep::TimedOut));
    assert_eq!(lease.timer(), Duration::MAX);
    assert_eq!(lease.deadline.at(), Duration::ZERO, "no follow-up is sent");
}

#[test]
fn a_lock_that_still_ends_as_before_was_not_extended() {
    let mut lease = lease(&RunningTasks::default());
    assert_eq!(step(&mut lease, 11), Some(LeaseStep::Extend));
    let (before, held) = (lease.lock_until, Duration::from_millis(200));
    lease.extended(seconds(11), before);
    assert_eq!(lease.timer(), seconds(11) + held, "it is tried again soon");
    assert_eq!(step(&mut lease, 12), Some(LeaseStep::Extend));
    lease.extended(seconds(30), before);
    assert_eq!(step(&mut lease, 31), Some(LeaseStep::Expired));
}

#[test]
fn an_attempt_that_its_transaction_holds_needs_no_lock_and_keeps_its_time_limit() {
    let mut lease = lease(&RunningTasks::default());
    assert_eq!(step(&mut lease, 11), Some(LeaseStep::Extend));
    lease.within.set();
    assert!(!lease.needs_extension());
    assert_eq!(lease.timer(), seconds(102));
    assert_eq!(step(&mut lease, 60), None, "its lock has no end");
    assert_eq!(step(&mut lease, 102), Some(LeaseStep::Stopped));
    assert_eq!(step(&mut lease, 103), Some(LeaseStep::TimedOut));
}

#[test]
fn a_lock_is_lost_once() {
    let mut lease = lease(&RunningTasks::default());
    assert!(lease.lose() && !lease.lose());
}

#[test]
fn a_task_whose_lock_is_lost_is_running_until_its_worker_is_gone_or_over_its_limit() {
    let running = RunningTasks::default();
    let mut gone = lease(&running);
    assert!(gone.lose() && running.enter(&gone.lock.id).is_none());
    drop(gone);
    let mut stuck = lease(&running);
    assert!(stuck.lose() && running.enter(&stuck.lock.id).is_none());
    assert_eq!(step(&mut stuck, 102), Some(LeaseStep::TimedOut));
    assert!(running.enter(&stuck.lock.id).is_some());
}

#[test]
fn an_attempt_over_its_limit_is_settled_once_its_worker_is_gone_or_soon() {
    let mut long = lease(&RunningTasks::default());
    long.deadline.put_off(seconds(100), LOCK);
    assert_eq!(step(&mut long, 102), Some(LeaseStep::Stopped));
    assert_eq!(long.timer(), seconds(102) + STOPPED_WITHIN);
    let mut short = lease(&RunningTasks::default());
    short
        .deadline
        .put_off(seconds(72) + Duration::from_millis(400), LOCK);
    assert_eq!(step(&mut short, 102), Some(LeaseStep::Stopped));
    let half = Duration::from_millis(200);
    assert_eq!(short.timer(), seconds(102) + half, "its lock is short");
    assert_eq!(step(&mut short, 103), Some(LeaseStep::TimedOut));
}

/// Found in review: the end of its worker was then taken for that of the runtime.
#[test]
fn an_attempt_over_its_limit_stays_so_though_its_lock_is_found_lost() {
    let mut lease = lease(&RunningTasks::default());
    lease.deadline.put_off(seconds(100), LOCK);
    assert_eq!(step(&mut lease, 102), Some(LeaseStep::Stopped));
    assert!(!lease.lose(), "its settlement tells");
    assert!(matches!(lease.state, LeaseState::Stopping(_)));
}
