//! The order of lists, the search, and the pages of recurring tasks, batches and pools.

use delayq_admin::Role;
use delayq_plugin::store::PoolUse;
use delayq_plugin::{Batch, DelayQueueJob, InstanceId, InstanceInfo, hours, minutes};
use scraper::{Html, Selector};

use crate::shop::{Shop, get, post};

/// The text of the first link of each row.
async fn rows(page: &axum::Router, path: &str) -> Vec<String> {
    let html = Html::parse_document(&get(page, path).await.text);
    let links = Selector::parse("tbody th a.row").unwrap();
    let links = html.select(&links);
    links.map(|link| link.text().collect()).collect()
}

#[tokio::test]
async fn the_worst_comes_first_and_every_column_sorts() {
    let shop = Shop::busy().await;
    shop.send("a.calm", "later", hours(1)).await;
    let page = shop.page(Role::Viewer);
    let by = async |sort: &str| rows(&page, &format!("/?sort={sort}")).await;
    let worst_first = ["sms.sent", "order.cancel", "a.calm", "mail.send"];
    assert_eq!(by("").await, worst_first);
    assert_eq!(by("nothing").await, worst_first);
    assert_eq!(
        by("type").await,
        ["a.calm", "mail.send", "order.cancel", "sms.sent"]
    );
    assert_eq!(by("-scheduled").await[0], "mail.send");
    assert_eq!(by("-dead").await[0], "order.cancel");
    assert_eq!(by("dead").await[3], "order.cancel");
    assert_eq!(by("-rate").await[0], "mail.send");
    for key in ["done", "p50", "p99", "due", "oldest", "running", "serving"] {
        assert_eq!(by(key).await.len(), 4, "{key}");
    }
    let text = get(&page, "/?q=a&sort=-due").await.text;
    assert!(text.contains("aria-sort=\"descending\""), "{text}");
    assert!(
        text.contains("href=\"/?q=a&#38;sort=due\""),
        "the other direction: {text}"
    );
}

#[tokio::test]
async fn zeros_are_dim_numbers_lead_to_their_tasks_and_late_is_a_bound() {
    let shop = Shop::busy().await;
    let text = get(&shop.page(Role::Viewer), "/?q=mail").await.text;
    assert!(
        text.contains("class=\"n zero\" data-label=\"Dead\">0<"),
        "{text}"
    );
    let list = "<a href=\"/tasks?type=mail.send&#38;state=scheduled\">4</a>";
    assert!(text.contains(list), "{text}");
    assert!(text.contains("data-label=\"p99\">&#60;8 ms<"), "{text}");
}

#[tokio::test]
async fn resume_is_offered_to_what_is_paused() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Operator);
    let offers = async |name: &str| {
        let text = get(&page, &format!("/type?name={name}")).await.text;
        text.contains("action=\"/type/resume\"")
    };
    assert!(offers("sms.sent").await && !offers("mail.send").await);
}

#[tokio::test]
async fn one_search_finds_types_ids_groups_errors_and_messages() {
    let shop = Shop::busy().await;
    let job = DelayQueueJob::raw("mail.send", "{\"to\":\"ann\"}").id("with-group");
    shop.tasks
        .send(job.group("tenant-7").after(hours(1)))
        .await
        .unwrap();
    let page = shop.page(Role::Admin);
    for (query, found) in [
        ("q=mail", "href=\"/type?name=mail.send\""),
        ("q=order-1", "href=\"/task?type=sms.sent&#38;id=order-1\""),
        ("q=tenant-7", "value=\"mail.send with-group\""),
        ("q=no+van", "value=\"order.cancel dead-2\""),
        (
            "q=no+van&in=error&state=dead",
            "value=\"order.cancel dead-2\"",
        ),
        ("q=ann&in=message", "value=\"mail.send with-group\""),
        ("q=order&types=sms.*", "value=\"sms.sent order-1\""),
        ("q=done-1", "href=\"/task?type=order.cancel&#38;id=done-1\""),
        ("q=nothing+at+all", "No task found"),
        ("q=", "Enter an id"),
    ] {
        let text = get(&page, &format!("/search?{query}")).await.text;
        assert!(text.contains(found), "{query}: {text}");
    }
    let text = get(&page, "/search?q=done-1").await.text;
    assert!(
        !text.contains("value=\"order.cancel done-1\""),
        "an ended task is not selected"
    );
    let text = get(&page, "/search?q=order&types=sms.*").await.text;
    assert!(!text.contains("mail.send order"), "{text}");
    assert_eq!(get(&page, "/search?q=a&types=no+type").await.status, 400);
}

#[tokio::test]
async fn recurring_tasks_are_found_in_the_store_and_their_next_run_is_started_and_removed() {
    let shop = Shop::busy().await;
    for name in ["", "north"] {
        let id = format!("{name}@2096-01-05T09:00:00Z");
        let job = DelayQueueJob::raw("report.daily", "null").id(id);
        let job = job.header("delayq-schedule", "0 9 * * * Europe/Oslo");
        let job = job.header("delayq-schedule-since", "0").after(hours(9));
        shop.tasks.send(job).await.unwrap();
    }
    shop.send("report.daily", "by-hand", hours(1)).await;
    let page = shop.page(Role::Operator);
    let text = get(&page, "/recurring").await.text;
    for part in [
        "2 recurring tasks",
        "0 9 * * * Europe/Oslo",
        "in 9h",
        "no worker",
        "north",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let removals = async |sort: &str| {
        let text = get(&page, &format!("/recurring?sort={sort}")).await.text;
        let html = Html::parse_document(&text);
        let details = Selector::parse("details.sure").unwrap();
        let asked = html.select(&details).map(|one| {
            let said: String = one.text().collect();
            let id = one.value().attr("id").unwrap().to_owned();
            (said.contains("report.daily north"), id)
        });
        asked.collect::<Vec<_>>()
    };
    let (mut up, down) = (removals("next").await, removals("-next").await);
    assert!(up[0].0 != up[1].0, "each names its task: {up:?}");
    up.sort();
    let mut same = down.clone();
    same.sort();
    assert_eq!(up, same, "an id belongs to its task, not to its row");
    let next = ("task", "report.daily north@2096-01-05T09:00:00Z");
    let answer = post(&page, "/selected/run-now", &[next, ("back", "/recurring")]).await;
    assert_eq!(
        (answer.flash().as_str(), answer.header("location")),
        ("+1 task due now", "/recurring")
    );
    let answer = post(&page, "/recurring/remove", &[("whole", "report.daily ")]).await;
    assert_eq!(answer.flash(), "+removed: 1 waiting run cancelled");
    assert!(
        get(&page, "/recurring")
            .await
            .text
            .contains("1 recurring task.")
    );
    assert_eq!(shop.log().await[0].action.verb, "remove-recurring");
}

/// Ordinary tasks that are due before an occurrence can keep it out of what is read.
#[tokio::test]
async fn a_type_whose_recurring_tasks_were_not_all_read_is_named() {
    let shop = Shop::empty();
    let jobs = (0..1_025).map(|n: u32| {
        let job = DelayQueueJob::raw("report.daily", "null").id(format!("by-hand-{n}"));
        job.after(minutes(5))
    });
    for sent in shop.tasks.send_all(jobs.collect()).await {
        sent.unwrap();
    }
    let page = shop.page(Role::Operator);
    let text = get(&page, "/recurring").await.text;
    for part in ["At least 0 recurring tasks", "more: report.daily."] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_batch_is_listed_shown_and_cancelled() {
    let shop = Shop::busy().await;
    let member = |n: u32| DelayQueueJob::raw("row.import", n.to_string()).after(hours(1));
    let then = DelayQueueJob::raw("import.report", "7");
    let batch = Batch::new("import-7").jobs((0..3).map(member)).then(then);
    shop.tasks.send_batch(batch).await.unwrap();
    let page = shop.page(Role::Operator);
    let text = get(&page, "/batches").await.text;
    for part in [
        "href=\"/batch?name=import-7\"",
        "0 of 3",
        "import.report",
        "waiting",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        get(&page, "/batches?q=other")
            .await
            .text
            .contains("No batch is waiting with this")
    );
    let text = get(&page, "/batch?name=import-7").await.text;
    assert!(text.contains("It waits for 3 tasks to end."), "{text}");
    let answer = post(&page, "/batch/cancel", &[("name", "import-7")]).await;
    let said = "+batch cancelled: 3 tasks cancelled, 0 running tasks asked to stop";
    assert_eq!(answer.flash(), said);
    assert_eq!(answer.header("location"), "/batch?name=import-7");
    assert_eq!(shop.log().await[0].action.verb, "cancel-batch");
    let text = get(&page, "/batch?name=import-7").await.text;
    assert!(
        text.contains("being cancelled") && !text.contains("/batch/cancel"),
        "{text}"
    );
    let answer = post(&page, "/batch/cancel", &[("name", "nobody")]).await;
    assert!(
        answer.flash().contains("no batch of this name waits"),
        "{}",
        answer.flash()
    );
}

#[tokio::test]
async fn a_batch_that_is_not_among_those_listed_is_found_by_its_name() {
    let shop = Shop::busy().await;
    for number in 0..130 {
        let member = DelayQueueJob::raw("row.import", "1").after(hours(1));
        let then = DelayQueueJob::raw("import.report", "7");
        let batch = Batch::new(format!("import-{number}"));
        let batch = batch.jobs([member]).then(then);
        shop.tasks.send_batch(batch).await.unwrap();
    }
    let page = shop.page(Role::Viewer);
    let named = async |q: &str| rows(&page, &format!("/batches?q={q}")).await;
    let listed = named("import").await;
    assert_eq!(listed.len(), 128);
    let hidden = (0..130).map(|number| format!("import-{number}"));
    for name in hidden.filter(|name| !listed.contains(name)) {
        assert!(named(&name).await.contains(&name), "{name}");
    }
    let text = get(&page, "/batches?q=nobody").await.text;
    assert!(!text.contains("No batch is waiting"), "{text}");
    assert!(text.contains("More batches wait than were looked at"));
}

#[tokio::test]
async fn pools_are_summed_over_the_instances_that_announce_them() {
    let shop = Shop::empty();
    for (host, used) in [("shop-1", 4), ("shop-2", 1)] {
        let now = shop.tasks.clock().now();
        let mut instance = InstanceInfo::new(InstanceId::generate(), host, 7, now);
        instance.pools = vec![PoolUse::new("mail", 4, used).shared_by(3)];
        let store = shop.tasks.store();
        store.announce(&instance, minutes(1)).await.unwrap();
    }
    let text = get(&shop.page(Role::Viewer), "/pools").await.text;
    for part in [
        "5 of 8 slots in use",
        "4 of 4 slots in use",
        "2 instances",
        "shop-2",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("full</span>"),
        "one instance has slots: {text}"
    );
}
