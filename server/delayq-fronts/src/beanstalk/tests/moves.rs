//! Moves that were left behind, and those that another server gets in the way of.

use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::store::{
    AttemptEnd, Bucket, ClaimRequest, MemoryStore, NewTask, Settlement, StoreOptions,
};
use delayq_plugin::{Clock, Lock, Namespace, TaskInfo, TaskState, When, days};
use delayq_testing::VirtualClock;

use super::super::hub::Hub;
use super::super::job::{BURIED, FROM, Job, MOVES, Past};
use super::super::jobs;
use super::super::moves::{finish, mend, reserve_job};
use super::super::report;
use super::super::tube::{Lane, TubeName, id_of, tube_part};
use crate::tests::server::Server;

const LEASE: Duration = Duration::from_mins(1);

/// A hub on a store whose clock is late: what happens there is old for the hub.
struct Bench {
    hub: Hub,
    clock: VirtualClock,
    tube: TubeName,
    lane: Lane,
}

impl Bench {
    async fn open() -> Self {
        let clock = VirtualClock::new(Hub::now().minus(Duration::from_mins(1)));
        let store = MemoryStore::new(Arc::new(clock.clone()), StoreOptions::default());
        let server = Server::in_memory().await;
        let namespace = Namespace::default();
        server.app.spaces.offer(namespace, Arc::new(store)).await;
        let hub = super::super::open(&server.app).await.unwrap();
        let tube = TubeName::first();
        let lane = hub.lane(&tube, 5).await.unwrap();
        Self {
            hub,
            clock,
            tube,
            lane,
        }
    }

    async fn put(&self, lane: &Lane, number: u64, delay: Duration, from: Option<&Lane>) {
        let id = id_of(number).unwrap();
        let mut task = NewTask::new(lane.task_type.clone(), id, b"x".to_vec());
        task.when = When::After(delay);
        if let Some(from) = from {
            let from = from.task_type.to_string();
            task.headers.insert(FROM.to_owned(), from);
        }
        for outcome in self.hub.store.submit(vec![task]).await {
            outcome.unwrap();
        }
    }

    async fn claim(&self, lane: &Lane) -> Lock {
        let bucket = Bucket::whole(lane.task_type.clone());
        let request = ClaimRequest::new(1, LEASE, self.clock.now());
        let claimed = self.hub.store.claim(&bucket, &request).await.unwrap();
        claimed.tasks[0].lock.clone()
    }

    async fn settle(&self, lane: &Lane, lock: Lock, end: AttemptEnd) {
        let bucket = Bucket::whole(lane.task_type.clone());
        let settlements = vec![Settlement::new(lock, end)];
        self.hub.store.settle(&bucket, settlements).await.unwrap();
    }

    /// A job that is dead in the lane of the bench: buried, or on its way to priority 9.
    async fn put_dead(&self, number: u64, why: &str) {
        self.put(&self.lane, number, Duration::ZERO, None).await;
        let lock = self.claim(&self.lane).await;
        let past = Past {
            pri: 9,
            ..Past::default()
        };
        let (error, succeeded) = (why.to_owned(), Vec::new());
        let end = AttemptEnd::Dead { error, succeeded };
        let bucket = Bucket::whole(self.lane.task_type.clone());
        let settlement = Settlement::new(lock, end).with_note(past.note());
        let settled = self.hub.store.settle(&bucket, vec![settlement]);
        settled.await.unwrap();
        self.clock.advance(Duration::from_millis(1));
    }

    async fn find(&self, lane: &Lane, number: u64) -> Option<TaskInfo> {
        let id = id_of(number).unwrap();
        self.hub.store.find(&lane.task_type, &id).await.unwrap()
    }

    async fn state(&self, lane: &Lane, number: u64) -> Option<TaskState> {
        self.find(lane, number).await.map(|task| task.state)
    }
}

#[tokio::test]
async fn a_job_that_was_just_claimed_stays_its_holders() {
    let bench = Bench::open().await;
    let lane = bench.lane.clone();
    bench.put(&lane, 1, Duration::ZERO, None).await;
    let info = bench.find(&lane, 1).await.unwrap();
    let lock = bench.claim(&lane).await;
    let job = Job {
        number: 1,
        tube: bench.tube.clone(),
        lane: lane.clone(),
        info,
    };
    let reserved = reserve_job(&bench.hub, 1, job).await.unwrap();
    assert!(reserved.is_none());
    let (after, succeeded) = (Duration::ZERO, Vec::new());
    let end = AttemptEnd::Release { after, succeeded };
    bench.settle(&lane, lock, end).await;
    assert_eq!(bench.state(&lane, 1).await, Some(TaskState::Scheduled));
}

#[tokio::test]
async fn a_job_that_was_put_off_to_be_taken_out_is_due_in_its_own_lane() {
    let bench = Bench::open().await;
    let own = Lane::of_job(&tube_part(&bench.tube), 5, 1).unwrap();
    bench.put(&bench.lane, 1, days(3_650), None).await;
    bench.put(&own, 1, days(3_650), Some(&bench.lane)).await;
    mend(&bench.hub, &bench.tube, &own).await.unwrap();
    let before = bench.state(&bench.lane, 1).await;
    assert_eq!(before, Some(TaskState::Cancelled));
    let mended = bench.find(&own, 1).await.unwrap();
    assert_eq!(mended.state, TaskState::Scheduled);
    assert!(mended.at <= Hub::now());
}

#[tokio::test]
async fn a_job_that_moved_and_was_done_does_not_run_again() {
    let bench = Bench::open().await;
    bench.put_dead(1, MOVES).await;
    let target = bench.hub.lane(&bench.tube, 9).await.unwrap();
    // The move went on, but for the discard.
    bench.put(&target, 1, Duration::ZERO, None).await;
    let lock = bench.claim(&target).await;
    bench.settle(&target, lock, AttemptEnd::Done).await;
    let id = id_of(1).unwrap();
    let moved = finish(&bench.hub, &bench.tube, &bench.lane, &id).await;
    assert!(!moved.unwrap());
    assert_eq!(bench.state(&target, 1).await, Some(TaskState::Done));
    assert_eq!(bench.state(&bench.lane, 1).await, None);
}

#[tokio::test]
async fn a_move_is_found_behind_many_buried_jobs() {
    let bench = Bench::open().await;
    for number in 1..=300 {
        bench.put_dead(number, BURIED).await;
    }
    bench.put_dead(301, MOVES).await;
    mend(&bench.hub, &bench.tube, &bench.lane).await.unwrap();
    let target = bench.hub.lane(&bench.tube, 9).await.unwrap();
    let moved = bench.state(&target, 301).await;
    assert_eq!(moved, Some(TaskState::Scheduled));
    let buried = bench.state(&bench.lane, 300).await;
    assert_eq!(buried, Some(TaskState::Dead));
}

/// The clock of the store is that of the hub here.
#[tokio::test]
async fn a_delayed_job_reserved_by_its_number_is_ready_in_one_step_when_its_hold_ends() {
    let bench = Bench::open().await;
    bench.clock.advance(Duration::from_mins(1));
    let take = async |number| {
        let job = jobs::find(&bench.hub, number).await.unwrap().unwrap();
        let reserved = reserve_job(&bench.hub, 1, job).await.unwrap();
        assert_eq!(reserved.unwrap().number, number);
        bench.hub.state().take(1, number).unwrap()
    };
    for number in [1, 2, 3] {
        bench.put(&bench.lane, number, days(1), None).await;
    }
    let (late, left, released) = (take(1).await, take(2).await, take(3).await);
    jobs::time_out(&bench.hub, vec![late]).await;
    jobs::leave(&bench.hub, vec![left]).await;
    jobs::release(&bench.hub, &released, 5, 0).await.unwrap();
    for number in [1, 2, 3] {
        let own = Lane::of_job(&tube_part(&bench.tube), 5, number).unwrap();
        let task = bench.find(&own, number).await.unwrap();
        // The store has seen one change: the end of the attempt.
        assert_eq!(task.state, TaskState::Scheduled);
        let last_error = task.history.last_error;
        assert!(last_error.is_none_or(|error| !error.starts_with(MOVES)));
        let job = jobs::find(&bench.hub, number).await.unwrap().unwrap();
        let stats = report::job(&bench.hub, &job);
        assert!(stats.contains("state: ready\n"), "{stats}");
    }
}

/// It looks like a copy that no client has seen yet.
#[tokio::test]
async fn a_job_reserved_by_its_number_and_released_for_ten_years_stays_delayed() {
    let bench = Bench::open().await;
    bench.put(&bench.lane, 1, days(1), None).await;
    let job = jobs::find(&bench.hub, 1).await.unwrap().unwrap();
    let reserved = reserve_job(&bench.hub, 1, job).await.unwrap();
    assert!(reserved.is_some());
    let held = bench.hub.state().take(1, 1).unwrap();
    let released = jobs::release(&bench.hub, &held, 5, u32::MAX);
    assert!(released.await.unwrap());
    let own = Lane::of_job(&tube_part(&bench.tube), 5, 1).unwrap();
    mend(&bench.hub, &bench.tube, &own).await.unwrap();
    let task = bench.find(&own, 1).await.unwrap();
    // The longest wait there is, though the client asked for 136 years.
    assert!(task.at > Hub::now().plus(days(3_640)), "{task:?}");
}

#[tokio::test]
async fn a_job_on_its_way_to_another_priority_is_reserved_and_not_buried() {
    let bench = Bench::open().await;
    let (hub, tube) = (&bench.hub, &bench.tube);
    bench.put_dead(1, BURIED).await;
    bench.put_dead(2, MOVES).await;
    let stats = report::tube(hub, tube).await.unwrap().unwrap();
    assert!(stats.contains("current-jobs-reserved: 1\n"), "{stats}");
    assert!(stats.contains("current-jobs-buried: 1\n"), "{stats}");
    let job = jobs::find(hub, 2).await.unwrap().unwrap();
    let stats = report::job(hub, &job);
    assert!(stats.contains("state: reserved\n"), "{stats}");
    assert!(!jobs::kick(hub, &job).await.unwrap());
    assert!(reserve_job(hub, 1, job).await.unwrap().is_none());
    assert!(!jobs::delete(hub, 2).await.unwrap());
    let buried = async || jobs::first(hub, tube, TaskState::Dead).await.unwrap();
    assert_eq!(buried().await.map(|job| job.number), Some(1));
    assert!(jobs::delete(hub, 1).await.unwrap());
    assert!(buried().await.is_none());
    mend(hub, tube, &bench.lane).await.unwrap();
    let target = hub.lane(tube, 9).await.unwrap();
    assert_eq!(bench.state(&target, 2).await, Some(TaskState::Scheduled));
}
