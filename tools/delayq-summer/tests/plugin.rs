//! delayq within an application of summer: configuration, components, start and shutdown.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use delayq_plugin::store::StoreOptions;
use delayq_plugin::{
    Component, DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, Namespace, TaskContext,
    TaskError, TaskEvent, TaskListener, TaskResult, TaskState, TaskSubmitService, hours, millis,
    task_worker,
};
use delayq_summer::DelayqPlugin;
use rustix::process::{Signal, getpid, kill_process};
use summer::App;
use summer::app::AppBuilder;
use summer::error::Result;
use summer::event::{EventSubscriber, ServicesInjectedEvent};
use summer::plugin::{ComponentRegistry, LazyComponent, MutableComponentRegistry, Service};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// What happened, in its order.
#[derive(Clone, Default)]
struct Diary {
    entries: watch::Sender<Vec<String>>,
}

impl Diary {
    fn write(&self, entry: String) {
        self.entries.send_modify(|entries| entries.push(entry));
    }

    /// Waits for an entry with these words.
    async fn has(&self, entry: &str) {
        let mut entries = self.entries.subscribe();
        let written =
            entries.wait_for(|entries| entries.iter().any(|written| written.contains(entry)));
        written.await.expect("the diary is here");
    }
}

impl TaskListener for Diary {
    fn on_started(&self, event: &TaskEvent, _attempt: u32) {
        self.write(format!("{} starts", event.id));
    }
}

/// Built by summer after all plugins, from delayq's component.
#[derive(Clone, Service)]
struct Shop {
    #[inject(component)]
    tasks: TaskSubmitService,
}

#[task_worker(type = "order.cancel")]
async fn cancel(order: &str, diary: Component<Diary>) -> TaskResult {
    diary.write(format!("{order} is cancelled"));
    Ok(())
}

/// Needs the shop at once, and runs until it is told to stop.
#[task_worker(type = "report.write")]
async fn report(
    cx: &TaskContext,
    diary: Component<Diary>,
    shop: Component<LazyComponent<Shop>>,
) -> TaskResult {
    let shop = shop.get().map_err(TaskError::retry)?;
    diary.write(format!("attempt {} of the report begins", cx.attempt()));
    cx.cancelled().await;
    let order = shop.tasks.find("order.cancel", "later").await?;
    let order = order.map(|order| order.state);
    diary.write(format!("the report ends, the order is {order:?}"));
    Ok(())
}

fn with_shop(builder: DelayQueuePluginBuilder) -> DelayQueuePluginBuilder {
    builder.component(LazyComponent::<Shop>::new())
}

/// Connects to the store beside the application.
async fn connected(folder: &Path) -> TaskSubmitService {
    let url = format!("sqlite:{}/tasks.sqlite?create=true", folder.display());
    let options = StoreOptions {
        namespace: Namespace::new("delayq-summer").expect("it is a name"),
        ..StoreOptions::default()
    };
    let tasks = TaskSubmitService::connect(&url, options).await;
    tasks.expect("the file can be made")
}

/// The application's file, the one of its environment over it, and a variable.
fn configuration(folder: &Path) -> String {
    let text = format!(
        "[delayq]\nurl = \"sqlite:{}/tasks.sqlite\"\nnamespace = \"${{CARGO_PKG_NAME:delayq-summer}}\"\n\
         grace = \"1h\"\n",
        folder.display()
    );
    let file = folder.join("app.toml");
    fs::write(&file, text).expect("the file can be written");
    let over = fs::write(folder.join("app-dev.toml"), "[delayq]\ngrace = \"50ms\"\n");
    over.expect("the file can be written");
    file.to_str().expect("the path is text").to_owned()
}

async fn send_orders(app: Arc<App>) -> Result<String> {
    let shop = app.try_get_component::<Shop>()?;
    for (order, delay) in [("now", None), ("later", Some(hours(1)))] {
        let job = cancel::job(order).expect("it is small").id(order);
        let job = delay.into_iter().fold(job, DelayQueueJob::after);
        shop.tasks
            .send(job)
            .await
            .expect("the store takes the task");
    }
    Ok("sent".to_owned())
}

fn application(folder: &Path, diary: &Diary) -> AppBuilder {
    let (listener, waiting, closing) = (diary.clone(), diary.clone(), diary.clone());
    let plugin = DelayqPlugin::default()
        .component::<Diary>()
        .with(move |builder, _| Ok(with_shop(builder).listener(listener.clone())));
    let mut app = App::new();
    app.use_config_file(&configuration(folder))
        .add_component(diary.clone())
        .add_plugin(plugin)
        .add_scheduler(|app| Box::new(send_orders(app)))
        .add_shutdown_hook(|_| {
            Box::new(async move {
                closing.write("the database is closed".to_owned());
                Ok("closed".to_owned())
            })
        });
    // The application is not complete before the overdue task is claimed.
    app.listen(move |_: ServicesInjectedEvent, _app: &mut AppBuilder| {
        let diary = waiting.clone();
        async move {
            diary.has("overdue starts").await;
            Ok(())
        }
    });
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_sends_runs_and_ends_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let diary = Diary::default();
    let before = connected(folder.path()).await;
    let overdue = report::job().unwrap().id("overdue");
    before.send(overdue).await.unwrap();
    before.close().await;

    // From here on a signal does not end this process.
    let _survives = signal(SignalKind::terminate()).unwrap();
    let mut app = application(folder.path(), &diary);
    let mut running = Box::pin(app.run());
    for entry in ["the report begins", "now is cancelled"] {
        tokio::select! {
            () = &mut running => panic!("the application ended by itself"),
            () = diary.has(entry) => {}
        }
    }
    let plugin = App::global().get_expect_component::<Arc<DelayQueuePlugin>>();
    assert_eq!(plugin.grace(), millis(50));
    let first = "attempt 1 of the report begins".to_owned();
    assert!(diary.entries.borrow().contains(&first), "it did not wait");
    // Repeated, as the application does not say from when on it listens.
    let mut again = tokio::time::interval(millis(20));
    loop {
        tokio::select! {
            () = &mut running => break,
            _ = again.tick() => kill_process(getpid(), Signal::TERM).unwrap(),
        }
    }
    let entries = diary.entries.borrow().clone();
    let expected = [
        "the report ends, the order is Some(Scheduled)",
        "the database is closed",
    ];
    assert!(
        entries.ends_with(&expected.map(str::to_owned)),
        "{entries:?}"
    );
    let log = folder.path().join("tasks.sqlite-wal");
    assert!(!log.exists(), "the store was not closed");

    let after = connected(folder.path()).await;
    for (task_type, id, state) in [
        ("order.cancel", "now", TaskState::Done),
        ("order.cancel", "later", TaskState::Scheduled),
        ("report.write", "overdue", TaskState::Done),
    ] {
        let task = after.find(task_type, id).await.unwrap().expect(id);
        assert_eq!(task.state, state, "{id}");
    }
}

/// The error of a start with this configuration.
async fn refused(config: &str, plugin: DelayqPlugin) -> String {
    let mut app = App::new();
    let built = app.use_config_str(config).add_plugin(plugin).build().await;
    built.err().expect("the start fails").to_string()
}

#[tokio::test]
async fn a_mistake_of_the_section_is_an_error_that_names_section_and_key() {
    let plugin = DelayqPlugin::default()
        .with(|builder, _| Ok(with_shop(builder).component(Diary::default())));
    for (config, message) in [
        (
            "threds = 2",
            "[delayq]: unknown option `threds`: did you mean `threads`?",
        ),
        (
            "grace = 30",
            "[delayq]: grace: `30` has no unit: write \"30s\"",
        ),
        (
            "[delayq.types.\"order.*\"]\nlock = \"soon\"",
            "[delayq]: types.\"order.*\".lock: \"soon\" is not a span",
        ),
        (
            "url = \"memory:?durability=memory\"\n[delayq.types.\"ordr.cancel\"]",
            "[delayq], types.\"ordr.cancel\": no worker serves that",
        ),
    ] {
        let error = refused(&format!("[delayq]\n{config}"), plugin.clone()).await;
        assert!(error.starts_with(message), "{config}: {error}");
    }
    let missing = refused("", DelayqPlugin::default().component::<Diary>()).await;
    assert!(missing.contains("no component plugin::Diary"), "{missing}");
}
