//! A namespace is moved while several servers use it, on files that they share.

use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::store::{
    AttemptEnd, Bucket, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, DeadFilter, Documents,
    Expected, KeptReply, Replies, Reply, SettleOutcome, Settlement, SubmitOutcome, TypeSettings,
};
use delayq_plugin::{
    Clock, DelayQueueJob, Error, Lock, Namespace, Receipt, Store, SystemClock, TaskId, TaskState,
    TaskSubmitService, TaskType, Timestamp, When, hours,
};
use tempfile::TempDir;

use super::mover::{Mover, Patience};
use super::placed_store::PlacedStore;
use super::record::Phase;
use crate::app::App;
use crate::config::{Config, NamespaceConfig};
use crate::draining::Draining;

mod contract;
mod edges;
mod ledger;
mod pushed;
mod recorded;

/// A move does not wait: a test says who has heard of it.
const AT_ONCE: Patience = Patience {
    prepare: Duration::ZERO,
    retention: Duration::ZERO,
};

fn config(folder: &TempDir) -> Config {
    let url = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let pool = Some("a".to_owned());
    Config {
        store: url("own.sqlite"),
        pools: [
            ("a".to_owned(), url("a.sqlite")),
            ("b".to_owned(), url("b.sqlite")),
            ("d".to_owned(), url("d.sqlite")),
        ]
        .into(),
        namespaces: [(
            "shop".to_owned(),
            NamespaceConfig {
                pool,
                ..NamespaceConfig::default()
            },
        )]
        .into(),
        ..Config::default()
    }
}

/// A server, as far as it has to do with the namespace.
struct Instance {
    app: App,
    place: Arc<PlacedStore>,
    tasks: TaskSubmitService,
}

impl Instance {
    async fn start(folder: &TempDir) -> Self {
        Self::start_with(config(folder)).await
    }

    async fn start_with(config: Config) -> Self {
        let app = App::open(config, Draining::default());
        let app = app.await.unwrap();
        let shop = Namespace::new("shop").unwrap();
        let space = app.spaces.of(&shop).await.unwrap();
        Self {
            place: Arc::clone(&space.place),
            tasks: space.tasks.clone(),
            app,
        }
    }

    fn mover(&self) -> Mover {
        Mover::patient(Arc::clone(&self.place), AT_ONCE)
    }

    fn phase(&self) -> Phase {
        self.place.view().unwrap().place.phase
    }

    async fn send(&self, id: &str, delay: Duration) -> Result<Receipt, Error> {
        let job = DelayQueueJob::raw("job", id).id(id).after(delay);
        self.tasks.send(job).await
    }

    /// One claim of each bucket.
    async fn claim(&self) -> Vec<(Bucket, Claimed)> {
        let mut parts = Vec::new();
        for bucket in self.place.buckets(&job_type()).await.unwrap() {
            let request = ClaimRequest::new(8, hours(1), SystemClock.now());
            let claimed = self.place.claim(&bucket, &request).await.unwrap();
            parts.push((bucket, claimed));
        }
        parts
    }

    async fn claim_one(&self) -> (Bucket, Lock) {
        let mut parts = self.claim().await.into_iter();
        let found = parts.find_map(|(bucket, mut claimed)| {
            let task = claimed.tasks.pop()?;
            Some((bucket, task.lock))
        });
        found.expect("a task is due")
    }

    async fn done(&self, (bucket, lock): (Bucket, Lock)) -> SettleOutcome {
        let done = vec![Settlement::new(lock, AttemptEnd::Done)];
        self.place.settle(&bucket, done).await.unwrap()[0]
    }

    async fn state(&self, id: &str) -> Option<TaskState> {
        let found = self.tasks.find("job", id).await.unwrap();
        found.map(|task| task.state)
    }
}

fn job_type() -> TaskType {
    TaskType::new("job").unwrap()
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

/// Moves on until the namespace is in this phase.
async fn drive(mover: &Mover, phase: Phase) {
    for _ in 0..20 {
        if mover.status().await.unwrap().place.phase == phase {
            return;
        }
        mover.advance().await.unwrap();
    }
    panic!(
        "the move does not reach {phase:?}: {}",
        mover.status().await.unwrap()
    );
}

/// A held lock: its bucket, and the lock.
type Held = (Bucket, Lock);

/// A server whose namespace has tasks of every state in the old store, and a new one that takes
/// new tasks. The running task is held by a lock of before the move.
async fn laid_out(folder: &TempDir) -> (Instance, Mover, Held) {
    let one = Instance::start(folder).await;
    for name in ["moved", "updated", "cancelled", "stays"] {
        one.send(name, hours(1)).await.unwrap();
    }
    one.send("dead", Duration::ZERO).await.unwrap();
    let (bucket, lock) = one.claim_one().await;
    let end = AttemptEnd::Dead {
        error: "no van".to_owned(),
        succeeded: Vec::new(),
    };
    let settled = one.place.settle(&bucket, vec![Settlement::new(lock, end)]);
    settled.await.unwrap();
    one.send("ended", Duration::ZERO).await.unwrap();
    let ended = one.claim_one().await;
    let (task_type, reply) = (job_type(), Reply::bytes("42"));
    let kept = one.place.keep_reply(&task_type, &ended.1, &reply);
    assert!(kept.await.unwrap());
    one.done(ended).await;
    one.send("runs", Duration::ZERO).await.unwrap();
    let held = one.claim_one().await;
    let mover = one.mover();
    mover.begin(Some("b".to_owned())).await.unwrap();
    drive(&mover, Phase::Moving).await;
    (one, mover, held)
}

#[tokio::test]
async fn each_task_is_found_where_it_is_and_no_id_is_in_both_stores() {
    let folder = tempfile::tempdir().unwrap();
    let (one, _, _) = laid_out(&folder).await;
    let later = hours(1);
    let exists = |state| SubmitOutcome::AlreadyExists { state };
    for (name, delay, state) in [
        ("stays", later, TaskState::Scheduled),
        ("runs", Duration::ZERO, TaskState::Running),
        ("dead", Duration::ZERO, TaskState::Dead),
        ("ended", Duration::ZERO, TaskState::Done),
    ] {
        assert_eq!(one.state(name).await, Some(state), "{name}");
        let again = one.send(name, delay).await.unwrap();
        assert_eq!(again.outcome, exists(state), "{name}");
    }
    let new = one.send("new", later).await.unwrap();
    assert!(matches!(new.outcome, SubmitOutcome::Accepted { .. }));
    let again = one.send("new", later).await.unwrap();
    assert_eq!(again.outcome, exists(TaskState::Scheduled));
    let view = one.place.view().unwrap();
    let old = &view.old.as_ref().unwrap().store;
    assert_eq!(old.find(&job_type(), &id("new")).await.unwrap(), None);
    let kept = one.place.reply(&job_type(), &id("ended")).await.unwrap();
    let kept = kept.map(|reply: KeptReply| reply.body);
    assert_eq!(kept, Some(b"42".to_vec()));

    let stats = one.tasks.stats("job").await.unwrap();
    assert_eq!((stats.scheduled, stats.running, stats.dead), (5, 1, 1));
    let bound = stats.max_pending;
    assert_eq!(bound, None, "what closes the old store is not shown");
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let list = &one.tasks;
        let page = list.list("job", TaskState::Scheduled, cursor.as_ref(), 1);
        let page = page.await.unwrap();
        listed.extend(page.tasks.into_iter().map(|task| task.id.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    listed.sort();
    let all = ["cancelled", "moved", "new", "stays", "updated"];
    assert_eq!(listed, all);
}

#[tokio::test]
async fn each_task_is_changed_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (one, _, held) = laid_out(&folder).await;
    one.send("new", hours(1)).await.unwrap();
    let is_changed = |outcome| matches!(outcome, Ok(ChangeOutcome::Changed { .. }));
    for name in ["moved", "new"] {
        let two = When::After(hours(2));
        let changed = one.tasks.reschedule("job", name, two).await;
        assert!(is_changed(changed), "{name}");
    }
    let updated = one.tasks.update_raw("job", "updated", "other").await;
    assert!(is_changed(updated));
    for (name, expected) in [
        ("cancelled", CancelOutcome::Cancelled),
        ("new", CancelOutcome::Cancelled),
        ("runs", CancelOutcome::Running),
        ("none", CancelOutcome::NotFound),
    ] {
        let cancelled = one.tasks.cancel("job", name).await;
        assert_eq!(cancelled, Ok(expected), "{name}");
    }
    // A lock of before the move.
    assert_eq!(one.done(held).await, SettleOutcome::Settled);
    let all = DeadFilter::all();
    let dead = one.tasks.requeue_dead("job", &all, Duration::ZERO).await;
    assert_eq!(dead, Ok(vec![id("dead")]));
    let again = one.claim_one().await;
    assert_eq!(again.1.id.as_str(), "dead");
    assert_eq!(one.done(again).await, SettleOutcome::Settled);
}

#[tokio::test]
async fn the_old_store_is_left_when_it_is_empty_and_the_way_back_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let (one, mover, held) = laid_out(&folder).await;
    one.send("new", hours(1)).await.unwrap();
    one.done(held).await;
    let all = DeadFilter::all();
    one.tasks.discard_dead("job", &all).await.unwrap();
    for name in ["moved", "updated", "cancelled", "stays"] {
        mover.advance().await.unwrap();
        assert_eq!(one.phase(), Phase::Moving, "{name} is left");
        one.tasks.run_now("job", name).await.map(drop).unwrap();
        let next = one.claim_one().await;
        one.done(next).await;
    }
    drive(&mover, Phase::Done).await;
    assert_eq!(one.state("new").await, Some(TaskState::Scheduled));
    one.tasks.run_now("job", "new").await.map(drop).unwrap();
    let last = one.claim_one().await;
    assert_eq!(last.1.id.as_str(), "new");
    assert_eq!(one.done(last).await, SettleOutcome::Settled);
    mover.begin(Some("a".to_owned())).await.unwrap();
    drive(&mover, Phase::Done).await;
    one.send("home", Duration::ZERO).await.unwrap();
    let home = one.claim_one().await;
    assert_eq!(home.1.id.as_str(), "home");
    assert_eq!(one.done(home).await, SettleOutcome::Settled);
}

#[tokio::test]
async fn settings_pauses_and_documents_go_along_and_change_only_before_or_after() {
    let folder = tempfile::tempdir().unwrap();
    let one = Instance::start(&folder).await;
    one.send("a", hours(1)).await.unwrap();
    let bound = TypeSettings::default()
        .max_pending(Some(7))
        .fleet_concurrency(Some(3));
    one.tasks.configure_type("job", &bound).await.unwrap();
    let until = Timestamp::from_millis(SystemClock.now().as_millis() + 3_600_000);
    one.tasks.pause("job", Some(until)).await.unwrap();
    let write = |name, body| {
        one.place
            .write_document("targets", name, body, Expected::Any)
    };
    write("job", "url").await.map(drop).unwrap();
    let mover = one.mover();
    mover.begin(Some("b".to_owned())).await.unwrap();
    let refused = write("job", "other").await.unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    assert!(
        one.tasks
            .pause("job", None)
            .await
            .unwrap_err()
            .is_transient()
    );
    drive(&mover, Phase::Moving).await;
    let stats = one.tasks.stats("job").await.unwrap();
    assert_eq!(
        (
            stats.max_pending,
            stats.fleet_concurrency,
            stats.paused_until
        ),
        (Some(7), Some(3), Some(until))
    );
    assert_eq!(
        one.place.folder("targets").await.unwrap().documents[0].body,
        "url"
    );
    write("job", "other").await.map(drop).unwrap();
    one.tasks.cancel("job", "a").await.map(drop).unwrap();
    drive(&mover, Phase::Done).await;
    assert_eq!(
        one.place.folder("targets").await.unwrap().documents[0].body,
        "other"
    );
    assert_eq!(one.tasks.stats("job").await.unwrap().max_pending, Some(7));
}

#[tokio::test]
async fn a_move_that_cannot_be_is_refused_and_one_that_is_prepared_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let one = Instance::start(&folder).await;
    let mover = one.mover();
    one.send("a", hours(1)).await.unwrap();
    for (to, word) in [(Some("a"), "already"), (Some("c"), "pools.c")] {
        let error = mover.begin(to.map(str::to_owned)).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    mover.begin(Some("b".to_owned())).await.unwrap();
    let twice = mover.begin(None).await.unwrap_err();
    assert!(twice.to_string().contains("being moved"), "{twice}");
    mover.cancel().await.unwrap();
    assert_eq!(one.phase(), Phase::Done);
    one.send("b", hours(1)).await.unwrap();
    mover.begin(Some("b".to_owned())).await.unwrap();
    drive(&mover, Phase::Moving).await;
    let late = mover.cancel().await.unwrap_err();
    assert!(late.to_string().contains("goes on"), "{late}");
    // The new store has tasks of the namespace now: nobody else's may be there.
    let other = Instance::start(&folder).await;
    assert_eq!(other.state("a").await, Some(TaskState::Scheduled));
}

/// A server that has not heard yet refuses what the old store does not know: a second task of one
/// id is never made.
#[tokio::test]
async fn a_server_that_has_not_heard_makes_no_second_task() {
    let folder = tempfile::tempdir().unwrap();
    let (one, deaf) = (
        Instance::start(&folder).await,
        Instance::start(&folder).await,
    );
    one.send("early", hours(1)).await.unwrap();
    let mover = one.mover();
    mover.begin(Some("b".to_owned())).await.unwrap();
    drive(&mover, Phase::Moving).await;
    assert_eq!(deaf.phase(), Phase::Done);
    one.send("new", hours(1)).await.unwrap();
    let refused = deaf.send("new", hours(1)).await.unwrap_err();
    assert!(matches!(refused, Error::QueueFull { .. }), "{refused}");
    let known = deaf.send("early", hours(1)).await.unwrap();
    let exists = SubmitOutcome::AlreadyExists {
        state: TaskState::Scheduled,
    };
    assert_eq!(known.outcome, exists);
    deaf.place.hear().await.unwrap();
    assert_eq!(deaf.send("new", hours(1)).await.unwrap().outcome, exists);
}
