//! A store that is away, and back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use delayq_core::documents::Documents;
use delayq_core::history::KeptMessage;
use delayq_core::memory::MemoryStore;
use delayq_core::operate::{Operate, TypeSettings};
use delayq_core::store::{CancelOutcome, ChangeOutcome, StoreOptions, SubmitOutcome};
use delayq_core::{
    Clock, Error, Result, Store, SystemClock, TaskState, TaskType, When, millis, seconds,
};
use delayq_testing::Fault;
use delayq_tiered::{TierOptions, TieredStore};

use super::stage::{
    HORIZON, LEAD, LOCK, Ledger, Plan, Stage, accept, id, job, no_fault, pause, task_type,
};

/// A plan with a store that can be away.
fn away(store: &'static str, fault: Fault) -> (Plan, Arc<AtomicBool>) {
    let is_away = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_away);
    let plan = move |called: &str, _: &str| {
        if called == store && asked.load(Ordering::Relaxed) {
            fault
        } else {
            Fault::None
        }
    };
    (Arc::new(plan), is_away)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_store_that_is_away_loses_nothing_and_is_told_of() {
    for fault in [Fault::NotApplied, Fault::AnswerLost] {
        let stage = Stage::new(&StoreOptions::default());
        let (plan, is_away) = away("hot", fault);
        let instance = stage.instance(&plan);
        let mut due = BTreeMap::new();
        for n in 0..300 {
            let name = format!("t{n}");
            let at = accept(&*instance.store, job(&name, When::After(millis(500 + n)))).await;
            due.insert(id(&name), at);
        }
        is_away.store(true, Ordering::Relaxed);
        pause(millis(1_000)).await;
        let stats = stage.cold.stats(&task_type()).await.unwrap();
        let left = stats.scheduled + stats.running;
        assert_eq!(left, 300, "{fault:?}: nothing was given up");
        // The concerns of a store that is away cannot be asked.
        is_away.store(false, Ordering::Relaxed);
        let concerns = instance.store.concerns().await.unwrap();
        let found = concerns.first().map(|one| one.found.clone());
        assert!(
            found.is_some_and(|text| text.contains("not moved")),
            "{concerns:?}"
        );
        let mut ledger = Ledger::default();
        ledger.work_until(&*stage.hot, 300).await;
        ledger.check(&due);
        instance.store.has_moved_all().await.unwrap();
        ledger.work(&*stage.hot).await;
        ledger.check(&due);
        while !instance.store.concerns().await.unwrap().is_empty() {
            pause(millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_cold_near_tasks_of_a_type_without_far_ones_are_accepted() {
    let stage = Stage::new(&StoreOptions::default());
    let (plan, is_away) = away("cold", Fault::NotApplied);
    let instance = stage.instance(&plan);
    let store = &*instance.store;
    let other = stage.sender_with(&plan);
    accept(&*other, job("near-0", When::After(millis(0)))).await;
    accept(store, job("near", When::After(millis(0)))).await;
    is_away.store(true, Ordering::Relaxed);
    pause(millis(1_100)).await;
    accept(store, job("near-2", When::After(millis(0)))).await;
    let far = store
        .submit(vec![job("far", When::After(HORIZON * 2))])
        .await;
    let refused = far[0].clone().unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    is_away.store(false, Ordering::Relaxed);
    accept(store, job("far", When::After(HORIZON * 2))).await;
    is_away.store(true, Ordering::Relaxed);
    pause(millis(1_100)).await;
    // Its id could be in cold: nobody knows.
    let near = store
        .submit(vec![job("near-3", When::After(millis(0)))])
        .await;
    let refused = near[0].clone().unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    // Another process, which counted none before the first far task, and learns of it from hot.
    let refused = other.submit(vec![job("near-4", When::After(millis(0)))]);
    let refused = refused.await.remove(0).unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    is_away.store(false, Ordering::Relaxed);
    let mut ledger = Ledger::default();
    ledger.work_until(&*stage.hot, 4).await;
}

/// Processes go on while hot is flushed, or replaced by an empty one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_store_that_was_lost_gets_its_marks_again() {
    let stage = Stage::new(&StoreOptions::default());
    let instance = stage.instance(&no_fault());
    accept(&*instance.store, job("far", When::After(HORIZON * 9))).await;
    let (folder, job) = ("tiered.types", task_type());
    let removed = stage.hot.remove_document(folder, job.as_str());
    removed.await.unwrap();
    let end = SystemClock.elapsed() + seconds(10);
    while stage.hot.folder(folder).await.unwrap().documents.is_empty() {
        assert!(SystemClock.elapsed() < end, "it has no mark");
        pause(millis(2)).await;
    }
}

/// A cold store that another process drops a type of as soon as its types have been listed.
#[derive(Debug)]
struct Dropped {
    inner: Arc<MemoryStore>,
    other: Arc<TieredStore>,
    listed: AtomicU32,
}

impl delayq_core::store::Layer for Dropped {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn types(&self) -> Result<Vec<TaskType>> {
        let types = self.inner.types().await;
        if self.listed.fetch_add(1, Ordering::Relaxed) == 0 {
            Operate::drop_type(&*self.other, &task_type()).await?;
        }
        types
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mark_of_a_type_that_another_process_drops_does_not_come_back() {
    let stage = Stage::new(&StoreOptions::default());
    let other = stage.sender();
    accept(&*other, job("far", When::After(HORIZON * 9))).await;
    let cancelled = other.cancel(&task_type(), &id("far")).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    let marks = async || stage.hot.folder("tiered.types").await.unwrap().documents;
    assert_eq!(marks().await.len(), 1);
    let inner = Arc::clone(&stage.cold);
    let cold = Arc::new(Dropped {
        inner,
        other,
        listed: AtomicU32::default(),
    });
    let options = TierOptions::new(HORIZON, &StoreOptions::default());
    let options = options.for_tests(LEAD, LOCK, Arc::new(SystemClock));
    let tier = TieredStore::open(stage.hot.clone(), cold.clone(), options).unwrap();
    let end = SystemClock.elapsed() + seconds(10);
    // Some rounds of the promoters.
    while cold.listed.load(Ordering::Relaxed) < 6 {
        assert!(SystemClock.elapsed() < end, "no rounds");
        pause(millis(2)).await;
    }
    assert_eq!(marks().await, []);
    accept(&*tier, job("far", When::After(HORIZON * 9))).await;
    assert_eq!(marks().await.len(), 1);
}

/// A process that starts while cold is away learns from hot which types have far tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_starts_without_cold_takes_near_tasks_of_types_without_far_ones() {
    let stage = Stage::new(&StoreOptions::default());
    accept(&*stage.sender(), job("far", When::After(HORIZON * 2))).await;
    let (plan, is_away) = away("cold", Fault::NotApplied);
    is_away.store(true, Ordering::Relaxed);
    let instance = stage.instance(&plan);
    let store = &*instance.store;
    let free = TaskType::new("free").unwrap();
    let mut near = job("near", When::After(millis(0)));
    near.task_type = free.clone();
    let settings = TypeSettings::default().max_pending(Some(10));
    let settings = settings.history(Some(KeptMessage::Whole));
    store.configure_type(&free, &settings).await.unwrap();
    accept(store, near.clone()).await;
    assert_eq!(store.stats(&free).await.unwrap().scheduled, 1);
    let types = [free.clone(), task_type()];
    assert_eq!(store.types().await, Ok(types.to_vec()));
    let none = id("none");
    assert_eq!(store.find(&free, &none).await, Ok(None));
    let cancelled = store.cancel(&free, &none).await;
    assert_eq!(cancelled, Ok(CancelOutcome::NotFound));
    let moved = store.reschedule(&free, &none, near.when).await;
    assert_eq!(moved, Ok(ChangeOutcome::NotFound));
    let changed = store.update(&free, &none, Vec::new()).await;
    assert_eq!(changed, Ok(ChangeOutcome::NotFound));
    let page = store.list(&free, TaskState::Scheduled, None, 9).await;
    assert_eq!(page.unwrap().tasks.len(), 1);
    let asked = store.find(&task_type(), &none).await;
    assert!(matches!(asked, Err(Error::Unavailable { .. })), "{asked:?}");
    let refused = store.submit(vec![job("a", When::After(millis(0)))]).await;
    let refused = refused[0].clone().unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    is_away.store(false, Ordering::Relaxed);
    // Cold learns the settings before the first far task.
    (near.id, near.when) = (id("far"), When::After(HORIZON * 2));
    accept(store, near).await;
    let stats = stage.cold.stats(&free).await.unwrap();
    assert_eq!((stats.scheduled, stats.history), (1, Some(u32::MAX)));
}

/// The limit of a type counts the far tasks, too. Tasks that were accepted under a larger one wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_counts_both_stores_and_a_full_hot_store_is_waited_for() {
    let stage = Stage::new(&StoreOptions::default());
    let instance = stage.instance(&no_fault());
    let store = &*instance.store;
    for name in ["a", "b", "c"] {
        accept(store, job(name, When::After(millis(600)))).await;
    }
    accept(store, job("near", When::After(millis(200)))).await;
    let bound = TypeSettings::default().max_pending(Some(4));
    store.configure_type(&task_type(), &bound).await.unwrap();
    for when in [When::After(millis(0)), When::After(HORIZON * 2)] {
        let refused = store.submit(vec![job("d", when)]).await.remove(0);
        let full = Error::QueueFull {
            task_type: task_type().to_string(),
            pending: 4,
            limit: 4,
        };
        assert_eq!(refused, Err(full));
    }
    let again = job("a", When::After(millis(600)));
    let known = store.submit(vec![again]).await.remove(0);
    assert!(
        matches!(known, Ok(SubmitOutcome::AlreadyExists { .. })),
        "{known:?}"
    );
    let bound = TypeSettings::default().max_pending(Some(1));
    store.configure_type(&task_type(), &bound).await.unwrap();
    let mut ledger = Ledger::default();
    ledger.work_until(&*stage.hot, 4).await;
}

/// Several instances compete for the locks of cold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_instances_move_each_task_once() {
    let stage = Stage::new(&StoreOptions::default());
    let instances: Vec<_> = (0..4).map(|_| stage.instance(&no_fault())).collect();
    let mut due = BTreeMap::new();
    for n in 0..1_000 {
        let name = format!("t{n}");
        let store = &instances[n % 4].store;
        let at = accept(&**store, job(&name, When::After(millis(500)))).await;
        due.insert(id(&name), at);
    }
    let mut ledger = Ledger::default();
    ledger.work_until(&*stage.hot, 1_000).await;
    instances[0].store.has_moved_all().await.unwrap();
    ledger.work(&*stage.hot).await;
    ledger.check(&due);
    let types: Vec<TaskType> = instances[0].store.types().await.unwrap();
    assert_eq!(types, [task_type()]);
    for instance in instances {
        instance.store.close().await;
    }
}
