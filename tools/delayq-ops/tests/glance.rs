//! The overview of all types, on the memory store under virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::sync::Arc;
use std::time::Duration;

use delayq_ops::{Trouble, TypeOverview, overview, overview_of_all};
use delayq_plugin::store::{
    Bucket, ClaimRequest, Figures, INSTANCE_EXPIRY, MemoryStore, Spell, StoreOptions,
};
use delayq_plugin::{
    Clock, DelayQueueJob, InstanceId, InstanceInfo, TaskSubmitService, TaskType, VirtualClock,
    minutes,
};

struct Shop {
    clock: VirtualClock,
    tasks: TaskSubmitService,
}

impl Shop {
    fn new() -> Self {
        let clock = VirtualClock::default();
        let store = MemoryStore::new(Arc::new(clock.clone()), StoreOptions::default());
        let tasks = TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(clock.clone()));
        Self { clock, tasks }
    }

    async fn send(&self, task_type: &str) {
        let job = DelayQueueJob::raw(task_type, "hi").after(Duration::ZERO);
        self.tasks.send(job).await.unwrap();
    }

    async fn serve(&self, types: &[&str]) {
        let types: Vec<_> = types
            .iter()
            .map(|name| TaskType::new(*name).unwrap())
            .collect();
        let id = InstanceId::generate();
        let instance = InstanceInfo::new(id, "shop-3", 17, self.clock.now()).serving(&types);
        let store = self.tasks.store();
        store
            .announce(&instance, INSTANCE_EXPIRY * 60)
            .await
            .unwrap();
    }

    async fn started(&self, task_type: &str, ago: Duration, count: u64) {
        let now = self.clock.now().as_millis();
        let at = now - i64::try_from(ago.as_millis()).unwrap();
        let mut figures = Figures::default();
        (figures.started, figures.done) = (count, count);
        let minute = Spell {
            at: delayq_plugin::Timestamp::from_millis(at),
            figures,
        };
        let task_type = TaskType::new(task_type).unwrap();
        let store = self.tasks.store();
        store.add_figures(&task_type, &[minute]).await.unwrap();
    }
}

fn troubles(types: &[TypeOverview]) -> Vec<(&str, &[Trouble])> {
    types
        .iter()
        .map(|one| (one.task_type.as_str(), one.troubles.as_slice()))
        .collect()
}

#[tokio::test]
async fn what_is_wrong_with_a_type_stands_beside_it() {
    let shop = Shop::new();
    for task_type in ["behind", "dead", "fine", "paused", "stuck", "unserved"] {
        shop.send(task_type).await;
    }
    shop.serve(&["behind", "dead", "fine", "paused", "stuck"])
        .await;
    shop.tasks.pause("paused", None).await.unwrap();
    let store = shop.tasks.store();
    let dead = Bucket::whole(TaskType::new("dead").unwrap());
    for _ in 0..4 {
        let request = ClaimRequest::new(1, minutes(1), shop.clock.now());
        store.claim(&dead, &request).await.unwrap();
        shop.clock.advance(minutes(2));
    }
    shop.started("behind", minutes(4), 30).await;
    shop.started("stuck", minutes(7), 5).await;
    let job = DelayQueueJob::raw("fine", "hi").after(Duration::ZERO);
    shop.tasks
        .cancel_all("fine", &delayq_plugin::TaskFilter::all())
        .await
        .unwrap();
    shop.tasks.send(job).await.unwrap();
    let seen = overview_of_all(&shop.tasks).await.unwrap();
    let expected: [(&str, &[Trouble]); 6] = [
        ("behind", &[Trouble::Behind]),
        ("dead", &[Trouble::Dead]),
        ("fine", &[]),
        ("paused", &[Trouble::Paused]),
        ("stuck", &[Trouble::Stuck]),
        ("unserved", &[Trouble::Unserved]),
    ];
    assert_eq!(troubles(&seen.types), expected);
    assert_eq!((seen.type_count, seen.instances.len()), (6, 1));
    assert_eq!(
        seen.types[4].minutes.len(),
        1,
        "an older minute of the hour"
    );
    assert_eq!(seen.types[5].serving, 0);
    let rate = seen.types[0].rate().unwrap();
    assert!((0.08..=0.1).contains(&rate), "30 in 5 to 6 minutes: {rate}");
    let one = overview(&shop.tasks, "behind").await.unwrap();
    assert_eq!((one.types.len(), one.type_count), (1, 1));
}
