//! A shop with planted trouble, and its page on a port of its own. Nothing runs in it, so that
//! everything stands still but for what a test does.

use std::sync::Arc;
use std::time::Duration;

use delayq_admin::{Admin, Role, Viewer};
use delayq_plugin::history::{HistoryStore, Life, LifeOutcome};
use delayq_plugin::store::{
    AttemptEnd, Bucket, ClaimRequest, Figures, MemoryStore, Settlement, Spell, Step, StoreOptions,
};
use delayq_plugin::{
    Clock, DelayQueueJob, InstanceId, InstanceInfo, Namespace, SystemClock, TaskId,
    TaskSubmitService, TaskType, minutes, seconds,
};
use tokio::net::TcpListener;

/// The page, and the store behind it.
pub(crate) struct Shop {
    pub(crate) tasks: TaskSubmitService,
    /// Where the page is.
    pub(crate) address: String,
    _folder: tempfile::TempDir,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        let store = MemoryStore::new(Arc::new(SystemClock), StoreOptions::default());
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("history").display());
        let history = HistoryStore::at(&url, Namespace::default(), seconds(10)).unwrap();
        let mut life = Life::new(
            named("order.cancel"),
            TaskId::new("order-3").unwrap(),
            LifeOutcome::Dead,
            SystemClock.now(),
        );
        life.error = Some("no van within 30 s".to_owned());
        history.record(&[life]).await.unwrap();
        let tasks = TaskSubmitService::new(Arc::new(store)).with_history(Arc::new(history));
        plant(&tasks).await;
        let admin = Admin::new(tasks.clone()).authorize(|_| Some(Viewer::new("ann", Role::Admin)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/shop", listener.local_addr().unwrap());
        // Mounted below a path, as in an application.
        let app = axum::Router::new().merge(admin.at("/shop"));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            tasks,
            address,
            _folder: folder,
        }
    }

    /// How many tasks of a type are scheduled, and how many dead.
    pub(crate) async fn counts(&self, task_type: &str) -> (u64, u64) {
        let stats = self.tasks.stats(task_type).await.unwrap();
        (stats.scheduled, stats.dead)
    }

    /// The verbs of the log, the latest first.
    pub(crate) async fn verbs(&self) -> Vec<String> {
        let actions = self.tasks.store().actions(None, 100).await.unwrap();
        actions.into_iter().map(|one| one.action.verb).collect()
    }
}

fn named(name: &str) -> TaskType {
    TaskType::new(name).unwrap()
}

async fn plant(tasks: &TaskSubmitService) {
    for (task_type, count, delay) in [
        ("mail.send", 150, 600),
        ("order.cancel", 30, 1_800),
        ("report.daily", 8, 0),
        ("sms.sent", 5, 0),
        ("webhook.deliver", 12, 0),
    ] {
        let jobs = (0..count).map(|number| {
            let message = serde_json::json!({"order": number, "to": "ann@shop.example"});
            let job = DelayQueueJob::new(task_type, &message).unwrap();
            let job = job.id(format!("order-{number}")).group("tenant-7");
            job.after(seconds(delay + number * 7 * u64::from(delay > 0)))
        });
        for sent in tasks.send_all(jobs.collect()).await {
            sent.unwrap();
        }
    }
    tasks.pause("report.daily", None).await.unwrap();
    kill(tasks, "webhook.deliver").await;
    let served = [
        "mail.send",
        "order.cancel",
        "report.daily",
        "webhook.deliver",
    ]
    .map(named);
    let now = tasks.clock().now();
    let instance = InstanceInfo::new(InstanceId::generate(), "shop-3", 17, now).serving(&served);
    let store = tasks.store();
    store.announce(&instance, minutes(60)).await.unwrap();
    for ago in 1..90 {
        let mut figures = Figures::default();
        (figures.started, figures.done) = (40 + ago * 7 % 13, 38 + ago * 7 % 13);
        figures.failed = 2;
        figures.ran(Duration::from_millis(180));
        figures.lateness.add(2, figures.started);
        let at = Step::Minute.begin(now.minus(minutes(ago)));
        let minute = [Spell { at, figures }];
        let added = store.add_figures(&served[0], &minute);
        added.await.unwrap();
    }
}

/// Two thirds of the tasks die of one error, the others of another.
async fn kill(tasks: &TaskSubmitService, task_type: &str) {
    let bucket = Bucket::whole(named(task_type));
    let store = tasks.store();
    let request = ClaimRequest::new(100, minutes(1), tasks.clock().now());
    let claimed = store.claim(&bucket, &request).await.unwrap();
    let settlements = claimed.tasks.into_iter().enumerate().map(|(nth, task)| {
        let error = match nth % 3 {
            0 => format!("partner-{nth} refused: 503"),
            _ => "connection reset by peer".to_owned(),
        };
        let succeeded = Vec::new();
        Settlement::new(task.lock, AttemptEnd::Dead { error, succeeded })
    });
    store.settle(&bucket, settlements.collect()).await.unwrap();
}
