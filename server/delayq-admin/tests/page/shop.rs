//! A shop with all kinds of tasks, and a browser in front of its page.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use delayq_admin::{Admin, Role, Viewer};
use delayq_plugin::history::{HistoryStore, KeptMessage};
use delayq_plugin::store::{
    AttemptEnd, Bucket, ClaimRequest, Ends, Figures, INSTANCE_EXPIRY, LoggedAction, MemoryStore,
    Settlement, Spell, Step, StoreOptions, TypeSettings,
};
use delayq_plugin::{
    Clock, DelayQueueJob, InstanceId, InstanceInfo, Namespace, Store, TaskSubmitService, TaskType,
    VirtualClock, hours, minutes, seconds,
};
use http_body_util::BodyExt;
use tower::ServiceExt;

/// The store, and its time.
pub(crate) struct Shop {
    pub(crate) clock: VirtualClock,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) tasks: TaskSubmitService,
    pub(crate) history: Arc<HistoryStore>,
    _folder: tempfile::TempDir,
}

/// An answer that was read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// The message of the redirect.
    pub(crate) fn flash(&self) -> String {
        let cookie = self.header("set-cookie");
        let value = cookie.split(';').next().unwrap().split_once('=').unwrap().1;
        let text = form_decoded(&value[1..]);
        format!("{}{text}", &value[..1])
    }
}

fn form_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let two = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(str::from_utf8(&two).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap()
}

/// A query or form of these fields.
pub(crate) fn encoded(fields: &[(&str, &str)]) -> String {
    let one = |text: &str| {
        let digits = text.bytes().map(|byte| format!("%{byte:02x}"));
        digits.collect::<Vec<_>>().concat()
    };
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", one(value)));
    fields.collect::<Vec<_>>().join("&")
}

pub(crate) async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let reply: Response<Body> = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = reply.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

pub(crate) async fn get(router: &Router, path: &str) -> Answer {
    ask(router, Request::get(path).body(Body::empty()).unwrap()).await
}

/// The token in the forms of a page.
pub(crate) async fn token(router: &Router) -> String {
    let page = get(router, "/type?name=mail.send").await.text;
    let (_, rest) = page.split_once("name=\"token\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// Sends a form as the page's own would be.
pub(crate) async fn post(router: &Router, path: &str, fields: &[(&str, &str)]) -> Answer {
    let token = token(router).await;
    let fields = [&[("token", token.as_str())], fields].concat();
    let form = Request::post(path)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "same-origin")
        .body(Body::from(encoded(&fields)))
        .unwrap();
    ask(router, form).await
}

impl Shop {
    pub(crate) fn empty() -> Self {
        let clock = VirtualClock::default();
        let store = Arc::new(MemoryStore::new(
            Arc::new(clock.clone()),
            StoreOptions::default(),
        ));
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("history").display());
        let history = HistoryStore::at(&url, Namespace::default(), seconds(10)).unwrap();
        let history = Arc::new(history);
        let tasks = TaskSubmitService::new(Arc::clone(&store) as Arc<dyn Store>)
            .with_clock(Arc::new(clock.clone()))
            .with_history(Arc::clone(&history));
        Self {
            clock,
            store,
            tasks,
            history,
            _folder: folder,
        }
    }

    /// One with tasks in every state, figures, instances and a log.
    pub(crate) async fn busy() -> Self {
        let shop = Self::empty();
        shop.clock.advance(hours(100));
        shop.serve(&["mail.send", "order.cancel"]).await;
        shop.record("order.cancel").await;
        for number in 0..3 {
            shop.send("mail.send", &format!("order-{number}"), seconds(600))
                .await;
        }
        shop.send("mail.send", "due-1", Duration::ZERO).await;
        shop.send("sms.sent", "order-1", Duration::ZERO).await;
        for id in ["dead-1", "dead-2", "dead-3"] {
            shop.kill("order.cancel", id, &format!("no van for {id} within 30 s"))
                .await;
        }
        shop.run("order.cancel", "runs-1").await;
        shop.end("order.cancel", "done-1", AttemptEnd::Done).await;
        shop.ship().await;
        shop.clock.advance(seconds(59));
        shop.figures("mail.send").await;
        shop.tasks.pause("sms.sent", None).await.unwrap();
        delayq_ops::Operator::new(&shop.tasks, "bob", "10.0.0.9")
            .pause("sms.sent", None)
            .await
            .unwrap();
        shop
    }

    pub(crate) async fn serve(&self, types: &[&str]) {
        let types: Vec<_> = types
            .iter()
            .map(|name| TaskType::new(*name).unwrap())
            .collect();
        let id = InstanceId::generate();
        let instance = InstanceInfo::new(id, "shop-3", 17, self.clock.now()).serving(&types);
        self.tasks
            .store()
            .announce(&instance, INSTANCE_EXPIRY * 60)
            .await
            .unwrap();
    }

    /// Has the ends of a type recorded.
    async fn record(&self, task_type: &str) {
        let task_type = TaskType::new(task_type).unwrap();
        let settings = TypeSettings::default().history(Some(KeptMessage::Nothing));
        let configured = self.tasks.store().configure_type(&task_type, &settings);
        configured.await.unwrap();
    }

    /// Brings the records that wait into the history.
    async fn ship(&self) {
        let waiting = self.store.ends(100).await.unwrap().into_iter();
        let lives: Vec<_> = waiting.map(|end| end.life).collect();
        self.history.record(&lives).await.unwrap();
    }

    pub(crate) async fn send(&self, task_type: &str, id: &str, delay: Duration) {
        let job = DelayQueueJob::raw(task_type, "{\"order\":7}")
            .id(id)
            .after(delay);
        self.tasks.send(job.header("tenant", "t-1")).await.unwrap();
    }

    /// Leaves it running.
    pub(crate) async fn run(&self, task_type: &str, id: &str) {
        self.send(task_type, id, Duration::ZERO).await;
        let bucket = Bucket::whole(TaskType::new(task_type).unwrap());
        let claim = ClaimRequest::new(10, minutes(10), self.clock.now());
        let claimed = self.store.claim(&bucket, &claim).await.unwrap();
        assert_eq!(claimed.tasks.len(), 1);
    }

    /// Sends it, runs it, and ends it so.
    pub(crate) async fn end(&self, task_type: &str, id: &str, end: AttemptEnd) {
        self.send(task_type, id, Duration::ZERO).await;
        self.end_next(task_type, end).await;
    }

    pub(crate) async fn end_next(&self, task_type: &str, end: AttemptEnd) {
        let bucket = Bucket::whole(TaskType::new(task_type).unwrap());
        let claim = ClaimRequest::new(1, minutes(10), self.clock.now());
        let claimed = self.store.claim(&bucket, &claim).await.unwrap();
        let lock = claimed.tasks[0].lock.clone();
        let settlement = Settlement::new(lock, end);
        self.store.settle(&bucket, vec![settlement]).await.unwrap();
    }

    pub(crate) async fn kill(&self, task_type: &str, id: &str, error: &str) {
        self.end(task_type, id, dead(error)).await;
    }

    pub(crate) async fn figures(&self, task_type: &str) {
        let now = Step::Minute.begin(self.clock.now());
        let spell = |ago| {
            let mut figures = Figures::default();
            (figures.started, figures.done, figures.failed) = (120, 117, 3);
            figures.ran(Duration::from_millis(40));
            figures.lateness.add(3, 119);
            figures.lateness.add(9, 1);
            Spell {
                at: now.minus(minutes(ago)),
                figures,
            }
        };
        let spells: Vec<_> = (0..90).map(spell).collect();
        let task_type = TaskType::new(task_type).unwrap();
        self.tasks
            .store()
            .add_figures(&task_type, &spells)
            .await
            .unwrap();
    }

    /// The page as seen by somebody in this role.
    pub(crate) fn page(&self, role: Role) -> Router {
        let admin = Admin::new(self.tasks.clone());
        admin
            .authorize(move |_| Some(Viewer::new("ann", role)))
            .router()
    }

    pub(crate) async fn log(&self) -> Vec<LoggedAction> {
        use delayq_plugin::store::Chronicle;
        self.store.actions(None, 100).await.unwrap()
    }
}

pub(crate) fn dead(error: &str) -> AttemptEnd {
    AttemptEnd::Dead {
        error: error.to_owned(),
        succeeded: Vec::new(),
    }
}

/// Every page, with fields that show something of [`Shop::busy`].
pub(crate) const PAGES: [&str; 24] = [
    "/",
    "/?sort=-due",
    "/search?q=order",
    "/recurring?sort=next",
    "/batches",
    "/batch?name=import-7",
    "/pools",
    "/?q=mail&only=trouble&page=9",
    "/type?name=mail.send",
    "/type?name=mail.send&range=24h&ahead=30d",
    "/type?name=sms.sent&range=30d",
    "/tasks?type=mail.send",
    "/tasks?type=order.cancel&state=running",
    "/tasks?type=order.cancel&state=dead&by=error&q=van",
    "/tasks?type=order.cancel&state=done",
    "/task?type=mail.send&id=order-1",
    "/task?type=order.cancel&id=dead-1&as=hex",
    "/task?type=order.cancel&id=nobody",
    "/dead?type=order.cancel",
    "/dead/requeue?type=order.cancel",
    "/type/purge?name=mail.send&state=scheduled",
    "/instances",
    "/log?actor=bob&end=done",
    "/health",
];

/// The pages that read the history instead of the store.
pub(crate) const HISTORY_PAGES: [&str; 2] = [
    "/history",
    "/history?type=order.cancel&outcome=dead&since=yesterday&error=van",
];
