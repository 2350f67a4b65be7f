//! Configuration of types, at the start and reloaded: under virtual time, on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use delayq_plugin::{
    Batch, ChangedOption, Config, DelayQueueJob, DelayQueuePluginBuilder, Error, TaskContext,
    TaskError, TaskResult, TaskState, TaskWorker, WorkerOptions,
};
use delayq_testing::TestQueue;

/// Fails each attempt of a task with the message `"fail"`, and counts them all.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU32>);

impl Counting {
    fn taken(&self) -> u32 {
        self.0.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl TaskWorker for Counting {
    async fn invoke(&self, message: &str, _cx: &TaskContext) -> TaskResult {
        self.0.fetch_add(1, Ordering::SeqCst);
        match message {
            "\"fail\"" => Err(TaskError::retry("as it was asked to")),
            _ => Ok(()),
        }
    }
}

fn config(text: &str) -> Config {
    Config::parse(text).expect(text)
}

fn job(task_type: &str, message: &str) -> DelayQueueJob {
    DelayQueueJob::new(task_type, &message).expect("a message")
}

fn names(options: &[ChangedOption]) -> String {
    let names: Vec<_> = options.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// One worker for all mails, in a process that serves no others.
fn mails(builder: DelayQueuePluginBuilder, worker: &Counting) -> DelayQueuePluginBuilder {
    let builder = builder.without_registered_workers().only(["mail.*"]);
    let builder = builder.worker("mail.*", WorkerOptions::DEFAULT, worker.clone());
    builder.worker("bill", WorkerOptions::DEFAULT, Counting::default())
}

#[tokio::test]
async fn the_longest_pattern_wins_and_a_reload_changes_what_is_read_from_then_on() {
    let worker = Counting::default();
    let first = config(
        "[types.\"mail.*\"]\nretry = { max = 2, base = \"1s\" }\n\
         [types.\"mail.vip.*\"]\nmax_releases = 9\n[types.bill]\nconcurrency = 1",
    );
    let queue = TestQueue::start(|builder| mails(builder, &worker).config(first)).await;
    let queue = queue.unwrap();
    for (task_type, attempts) in [("mail.a", 2), ("mail.vip.a", 5)] {
        queue.send(job(task_type, "fail")).await.unwrap();
        queue.advance("1h").await;
        assert_eq!(worker.taken(), attempts, "{task_type}");
    }

    let second = "url = \"memory:\"\ngrace = \"5s\"\n[types.\"mail.*\"]\nretry = { max = 3 }\n\
                  timeout = \"10s\"\nlock = \"5s\"\nconcurrency = 7\nblocking = true";
    let reloaded = queue.plugin().reload(config(second)).unwrap();
    assert_eq!(
        names(&reloaded.applied),
        "types.\"mail.a\".retry, types.\"mail.a\".timeout, types.\"mail.a\".concurrency, \
         types.\"mail.vip.a\".retry, types.\"mail.vip.a\".max_releases, \
         types.\"mail.vip.a\".timeout, types.\"mail.vip.a\".concurrency, grace"
    );
    assert_eq!(
        names(&reloaded.needs_restart),
        "types.\"mail.a\".lock, types.\"mail.a\".blocking, \
         types.\"mail.vip.a\".lock, types.\"mail.vip.a\".blocking, url"
    );
    // One that is first served after the reload has all of it.
    for task_type in ["mail.a", "mail.vip.a", "mail.new"] {
        queue.send(job(task_type, "fail")).await.unwrap();
        queue.advance("1h").await;
        assert_eq!(worker.taken(), 3, "{task_type}");
    }
    let again = queue.plugin().reload(config(second)).unwrap();
    assert_eq!(names(&again.applied), "");

    for (bad, why) in [
        (
            "[types.male]\nlock = \"5s\"",
            "types.\"male\": no worker serves that; registered: bill, mail.*",
        ),
        (
            "[types.\"mail.a\"]\nlate_after = \"5s\"",
            "remove `late_after`",
        ),
        (
            "[types.\"mail.a\"]\nshards = 2\nfleet_rate = \"1/s\"",
            "exclude each other",
        ),
    ] {
        let error = queue.plugin().reload(config(bad)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    queue.send(job("mail.a", "fail")).await.unwrap();
    queue.advance("1h").await;
    assert_eq!(worker.taken(), 3, "a refused reload changes nothing");
}

#[tokio::test]
async fn a_table_of_all_types_leaves_delayqs_own_watcher_as_it_is() {
    let worker = Counting::default();
    let queue = TestQueue::start(|builder| mails(builder, &worker)).await;
    let queue = queue.unwrap();
    let batch = Batch::new("import-7").job(job("mail.a", "ok").after("1h"));
    let batch = batch.then(job("mail.a", "ok"));
    queue.tasks().send_batch(batch).await.unwrap();
    queue.advance("5s").await;
    let all = config("[types.\"*\"]\nconcurrency = 1");
    let reloaded = queue.plugin().reload(all).unwrap();
    assert_eq!(names(&reloaded.applied), "types.\"mail.a\".concurrency");
}

#[tokio::test]
async fn limits_of_the_fleet_and_the_bound_follow_a_reload() {
    let worker = Counting::default();
    let limited = "[types.\"mail.*\"]\nfleet_rate = \"1/h\"\nmax_pending = 2";
    let start = |builder| mails(builder, &worker).config(config(limited));
    let queue = TestQueue::start(start).await.unwrap();
    queue.send(job("mail.a", "well")).await.unwrap();
    queue.advance("2s").await;
    for _ in 0..2 {
        queue.send(job("mail.a", "well")).await.unwrap();
    }
    queue.advance("2s").await;
    assert_eq!(worker.taken(), 1);
    let full = queue.send(job("mail.a", "well")).await;
    assert!(
        matches!(full, Err(Error::QueueFull { limit: 2, .. })),
        "{full:?}"
    );

    let reloaded = queue.plugin().reload(Config::default()).unwrap();
    let applied = "types.\"mail.a\".fleet_rate, types.\"mail.a\".max_pending";
    assert_eq!(names(&reloaded.applied), applied);
    queue.advance("2s").await;
    assert_eq!(worker.taken(), 2, "they wait for no rate any more");
    for n in 0..3 {
        queue
            .send(job("mail.a", "well").id(n.to_string()).after("1h"))
            .await
            .unwrap();
    }
    let later = queue
        .tasks()
        .list("mail.a", TaskState::Scheduled, None, 9)
        .await;
    assert_eq!(later.unwrap().tasks.len(), 3);
}

#[tokio::test]
async fn a_start_refuses_a_table_that_nobody_serves_and_rules_of_several_options() {
    for (text, why) in [
        ("[types.\"male.*\"]\nlock = \"5s\"", "no worker serves that"),
        (
            "[types.\"mail.*\"]\non_late = \"drop\"",
            "say how late is too late",
        ),
        (
            "[types.\"mail.x\"]\nretry = { base = \"1h\" }",
            "longer than the longest one",
        ),
        (
            "[types.\"mail.*\"]\ndelivery = \"at_most_once\"\nfleet_concurrency = 1",
            "counts locks",
        ),
        ("poll_interval = \"1ms\"", "at least 10 ms"),
        ("url = \"memory:\"", "an open store was given"),
    ] {
        let config = config(text);
        let start = |builder| mails(builder, &Counting::default()).config(config);
        let error = TestQueue::start(start).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

/// The names between backticks behind `after`.
fn listed<'a>(text: &'a str, after: &str) -> Vec<&'a str> {
    let (_, list) = text.split_once(after).expect("a list of options");
    let line = list.lines().next().unwrap_or_default();
    line.split('`').skip(1).step_by(2).collect()
}

/// The options of the attribute that belong to the code: what is served, and which messages.
const OF_THE_CODE: [&str; 9] = [
    "type",
    "pool",
    "name",
    "quote_message",
    "every",
    "zone",
    "version",
    "upcast",
    "alias",
];

#[test]
fn a_table_has_the_options_of_the_attribute() {
    let attribute = include_str!("ui/unknown_option.stderr");
    let attribute = listed(attribute, "the options are ").into_iter();
    let mut attribute: Vec<_> = attribute
        .filter(|name| !OF_THE_CODE.contains(name))
        .collect();
    let error = Config::parse("[types.a]\nqueue = 1")
        .unwrap_err()
        .to_string();
    let mut table = listed(&error, "the options are ");
    attribute.sort_unstable();
    table.sort_unstable();
    assert_eq!(attribute, table);

    let attribute = include_str!("ui/unknown_retry_option.stderr");
    let attribute = listed(attribute, "the options are ");
    let error = Config::parse("[types.a]\nretry = { queue = 1 }")
        .unwrap_err()
        .to_string();
    assert_eq!(attribute, listed(&error, "the options are "));
}
