//! Each symptom once, under virtual time; a store whose settings were changed, on SQLite.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delayq_ops::{Severity, Symptom, doctor, doctor_at};
use delayq_plugin::store::{
    AttemptEnd, Bucket, ClaimRequest, Concern, Durability, Layer, MemoryStore, Settlement,
    StoreCall, StoreOptions,
};
use delayq_plugin::{
    Clock, DelayQueueJob, Error, InstanceId, InstanceInfo, Store, TaskSubmitService, TaskType,
    TypeSettings, VirtualClock, minutes, seconds,
};

fn service(clock: &VirtualClock) -> TaskSubmitService {
    let store = MemoryStore::new(Arc::new(clock.clone()), StoreOptions::default());
    TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(clock.clone()))
}

async fn symptoms(tasks: &TaskSubmitService) -> Vec<Symptom> {
    let found = doctor(tasks).await;
    assert!(
        found.is_sorted_by(|one, next| one.severity >= next.severity),
        "{found:?}"
    );
    found.into_iter().map(|finding| finding.symptom).collect()
}

/// The command and the task of the one finding with this symptom.
async fn advice(tasks: &TaskSubmitService, symptom: Symptom) -> (String, Option<String>) {
    let found = doctor(tasks).await;
    let mut found = found.into_iter().filter(|one| one.symptom == symptom);
    let (one, other) = (found.next().unwrap(), found.next());
    assert_eq!(other, None);
    let id = one.task_id.map(|id| id.as_str().to_owned());
    (one.command.unwrap_or_default(), id)
}

fn run_for(command: &str, id: &str) -> (String, Option<String>) {
    (command.to_owned(), (!id.is_empty()).then(|| id.to_owned()))
}

async fn announce(tasks: &TaskSubmitService, id: &InstanceId, version: &str) {
    let types = [TaskType::new("mail").unwrap()];
    let mut instance = InstanceInfo::new(id.clone(), "shop-3", 17, tasks.clock().now());
    instance.version = version.to_owned();
    let store = tasks.store();
    store
        .announce(&instance.serving(&types), minutes(600))
        .await
        .unwrap();
}

/// A store with a concern.
#[derive(Debug)]
struct Concerned(MemoryStore);

impl Layer for Concerned {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn concerns(&self) -> delayq_plugin::Result<Vec<Concern>> {
        Ok(vec![Concern::new("it grows", "somebody waits", "end it")])
    }
}

#[tokio::test]
async fn a_concern_of_the_store_is_a_warning_with_what_to_do() {
    let clock = Arc::new(VirtualClock::default());
    let store = Concerned(MemoryStore::new(clock, StoreOptions::default()));
    let found = doctor(&TaskSubmitService::new(Arc::new(store))).await;
    let mut found = found.into_iter();
    let concern = found.find(|one| one.symptom == Symptom::Concern).unwrap();
    assert_eq!(concern.severity, Severity::Warning);
    assert_eq!(
        (concern.found.as_str(), concern.fix.as_str()),
        ("it grows", "end it")
    );
}

#[tokio::test]
async fn each_symptom_is_found_and_goes_with_its_cause() {
    let clock = VirtualClock::default();
    let tasks = service(&clock);
    let bucket = Bucket::whole(TaskType::new("mail").unwrap());
    assert_eq!(symptoms(&tasks).await, [Symptom::Volatile]);
    for id in ["a", "b", "c"] {
        let job = DelayQueueJob::raw("mail", "hi").id(id);
        tasks.send(job).await.unwrap();
    }
    assert_eq!(
        symptoms(&tasks).await,
        [Symptom::Unserved, Symptom::Volatile]
    );
    let worker = InstanceId::generate();
    announce(&tasks, &worker, "0.1.0").await;
    assert_eq!(symptoms(&tasks).await, [Symptom::Volatile]);
    clock.advance(minutes(2));
    assert_eq!(
        symptoms(&tasks).await,
        [Symptom::Volatile, Symptom::Overdue]
    );
    let overdue = advice(&tasks, Symptom::Overdue).await;
    assert_eq!(overdue, run_for("delayq explain mail a", "a"));
    tasks.pause("mail", None).await.unwrap();
    assert_eq!(symptoms(&tasks).await, [Symptom::Volatile, Symptom::Paused]);
    let paused = advice(&tasks, Symptom::Paused).await;
    assert_eq!(paused, run_for("delayq resume mail", ""));
    tasks.resume("mail").await.unwrap();
    let mut request = ClaimRequest::new(3, seconds(30), clock.now());
    request.holder = Some(worker.clone());
    let claimed = tasks.store().claim(&bucket, &request).await.unwrap();
    let (error, succeeded) = ("gone".to_owned(), Vec::new());
    let dead = Settlement::new(
        claimed.tasks[0].lock.clone(),
        AttemptEnd::Dead { error, succeeded },
    );
    tasks.store().settle(&bucket, vec![dead]).await.unwrap();
    assert_eq!(symptoms(&tasks).await, [Symptom::Volatile, Symptom::Dead]);
    let dead = claimed.tasks[0].lock.id.as_str();
    let command = format!("delayq show mail {dead}");
    assert_eq!(advice(&tasks, Symptom::Dead).await, run_for(&command, dead));
    announce(&tasks, &InstanceId::generate(), "0.2.0").await;
    let with_version = [Symptom::Volatile, Symptom::Dead, Symptom::Versions];
    assert_eq!(symptoms(&tasks).await, with_version);
    tasks.store().withdraw(&worker).await.unwrap();
    let with_locks = [Symptom::Volatile, Symptom::Dead, Symptom::Locks];
    assert_eq!(symptoms(&tasks).await, with_locks);
    announce(&tasks, &worker, "0.2.0").await;
    assert_eq!(symptoms(&tasks).await, with_version[..2]);
    clock.advance(minutes(1));
    assert_eq!(symptoms(&tasks).await, with_locks);
}

#[tokio::test]
async fn a_full_type_and_clocks_that_differ_are_found() {
    let clock = VirtualClock::default();
    let tasks = service(&clock);
    announce(&tasks, &InstanceId::generate(), "0.1.0").await;
    let bound = TypeSettings::default().max_pending(Some(1));
    tasks.configure_type("mail", &bound).await.unwrap();
    let job = DelayQueueJob::raw("mail", "hi").after("1h");
    tasks.send(job).await.unwrap();
    let found = doctor(&tasks).await;
    assert_eq!(
        (found[0].symptom, found[0].severity),
        (Symptom::Full, Severity::Error)
    );
    assert_eq!(found[0].found, "mail: 1 task waits, and max_pending is 1");
    let host = VirtualClock::new(clock.now().plus(minutes(3)));
    let tasks = tasks.with_clock(Arc::new(host));
    assert!(symptoms(&tasks).await.contains(&Symptom::Clocks));
}

/// A store with one damaged type: the one that is looked at first.
#[derive(Debug)]
struct Damaged(Arc<dyn Store>, AtomicU32);

impl Layer for Damaged {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn around<T: Send>(
        &self,
        call: StoreCall,
        answer: impl Future<Output = delayq_plugin::Result<T>> + Send,
    ) -> delayq_plugin::Result<T> {
        if call == StoreCall::Stats && self.1.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(Error::corrupt("dq:{a}", "no number"));
        }
        answer.await
    }
}

/// A look ended at the first type that could not be read: a damaged one hid what was wrong with
/// all others.
#[tokio::test]
async fn a_type_that_cannot_be_read_hides_no_other() {
    let clock = VirtualClock::default();
    let inner = service(&clock);
    for name in ["a", "b", "c"] {
        inner.send(DelayQueueJob::raw(name, "hi")).await.unwrap();
    }
    let store = Damaged(Arc::clone(inner.store()), AtomicU32::new(0));
    let tasks = TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(clock.clone()));
    let found = doctor(&tasks).await;
    let unserved = found
        .iter()
        .filter(|one| one.symptom == Symptom::Unserved)
        .count();
    assert_eq!(
        (found[0].symptom, unserved),
        (Symptom::Store, 2),
        "{found:?}"
    );
    // Not all types are locked and read for the damage of one.
    assert_eq!(found[0].command.as_deref(), Some("delayq audit a --repair"));
}

#[tokio::test]
async fn a_store_that_cannot_keep_the_class_is_the_finding_with_the_line_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.sqlite");
    let url = format!("sqlite:{}?create=true", path.display());
    let options = StoreOptions::default;
    assert_eq!(doctor_at(&url, options()).await.unwrap(), []);
    let disk = StoreOptions {
        durability: Durability::Disk,
        call_timeout: Duration::from_secs(5),
        ..options()
    };
    let relaxed = format!("{url}&sync=normal");
    let found = doctor_at(&relaxed, disk).await.unwrap();
    assert_eq!(
        (found.len(), found[0].symptom),
        (1, Symptom::Store),
        "{found:?}"
    );
    assert!(found[0].fix.contains("sync"), "{found:?}");
    let nowhere = format!("sqlite:{}", folder.path().join("no").display());
    assert!(doctor_at(&nowhere, options()).await.is_err());
}

/// A process that dies with each start of a task, and one that dies at its own start, were seen as
/// late tasks or not at all.
#[tokio::test]
async fn a_crash_loop_is_named_by_its_task_and_by_its_host() {
    let clock = VirtualClock::default();
    let tasks = service(&clock);
    let bucket = Bucket::whole(TaskType::new("mail").unwrap());
    for id in ["well", "it's-me"] {
        let job = DelayQueueJob::raw("mail", "hi").id(id);
        tasks.send(job).await.unwrap();
    }
    let mut crashed = Vec::new();
    for start in 0..3 {
        let worker = InstanceId::generate();
        announce(&tasks, &worker, "0.1.0").await;
        let mut request = ClaimRequest::new(2, seconds(30), clock.now());
        request.holder = Some(worker.clone());
        let claimed = tasks.store().claim(&bucket, &request).await.unwrap();
        for one in claimed
            .tasks
            .iter()
            .filter(|one| one.lock.id.as_str() == "well")
        {
            let done = Settlement::new(one.lock.clone(), AttemptEnd::Done);
            tasks.store().settle(&bucket, vec![done]).await.unwrap();
        }
        let loops = doctor(&tasks).await.into_iter();
        let loops: Vec<_> = loops
            .filter(|one| one.symptom == Symptom::Crashes)
            .collect();
        if start < 2 {
            assert_eq!(loops, [], "one crash is no loop");
            crashed.push(worker);
            clock.advance(seconds(31));
            continue;
        }
        let [host, task] = loops.as_slice() else {
            panic!("{loops:#?}");
        };
        for gone in &crashed {
            assert!(host.found.contains(gone.short()), "{}", host.found);
            assert!(task.found.contains(gone.short()), "{}", task.found);
        }
        assert!(
            host.found.contains("2 instances on shop-3"),
            "{}",
            host.found
        );
        assert_eq!(host.command.as_deref(), Some("delayq instances"));
        assert!(
            task.found
                .starts_with("mail: crash loop: task it's-me lost its lock 2 times"),
            "{}",
            task.found
        );
        assert_eq!(
            task.command.as_deref(),
            Some(r"delayq explain mail 'it'\''s-me'")
        );
        assert_eq!(task.severity, Severity::Error);
    }
    // An hour later it is over.
    clock.advance(minutes(61));
    assert!(
        !doctor(&tasks)
            .await
            .iter()
            .any(|one| one.found.contains("lost its lock"))
    );
}
