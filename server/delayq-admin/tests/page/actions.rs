//! Each action does what it says, and is in the log.

use delayq_admin::Role;
use delayq_plugin::store::AttemptEnd;
use delayq_plugin::{TaskState, Timestamp, seconds};

use crate::shop::{Shop, get, post};

/// The state of a task, or that it is gone.
async fn state(shop: &Shop, task_type: &str, id: &str) -> Option<TaskState> {
    let task = shop.tasks.find(task_type, id).await.unwrap();
    task.map(|task| task.state)
}

/// Who did what to what last, and how it ended.
async fn logged(shop: &Shop) -> (String, String, String) {
    let log = shop.log().await;
    let action = &log[0].action;
    assert_eq!(
        (action.actor.as_str(), action.origin.as_str()),
        ("ann", "page")
    );
    (
        action.verb.clone(),
        action.target.clone(),
        action.end.to_string(),
    )
}

fn entry(verb: &str, target: &str, end: &str) -> (String, String, String) {
    (verb.to_owned(), target.to_owned(), end.to_owned())
}

#[tokio::test]
async fn a_single_task_is_cancelled_moved_started_and_edited() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Operator);
    let task = |id: &'static str| [("type", "mail.send"), ("id", id)];

    let answer = post(&page, "/task/cancel", &task("order-0")).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.flash()[..10]),
        (303, "+cancelled")
    );
    assert_eq!(answer.header("location"), "/task?type=mail.send&id=order-0");
    assert_eq!(
        state(&shop, "mail.send", "order-0").await,
        Some(TaskState::Cancelled)
    );
    assert_eq!(logged(&shop).await, entry("cancel", "order-0", "done"));

    post(&page, "/task/run-now", &task("order-1")).await;
    let moved = shop
        .tasks
        .find("mail.send", "order-1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(moved.at, shop.clock_now());
    assert_eq!(logged(&shop).await, entry("run-now", "order-1", "done"));

    let fields = [&task("order-1")[..], &[("when", "2h")]].concat();
    post(&page, "/task/move", &fields).await;
    let moved = shop
        .tasks
        .find("mail.send", "order-1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(moved.at, shop.clock_now().plus(seconds(7_200)));
    assert_eq!(logged(&shop).await, entry("reschedule", "order-1", "done"));

    let fields = [
        &task("order-1")[..],
        &[("form", "text"), ("message", "a\r\nb ")],
    ]
    .concat();
    post(&page, "/task/edit", &fields).await;
    let edited = shop
        .tasks
        .find("mail.send", "order-1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(edited.message.as_deref(), Some(&b"a\nb "[..]));
    let fields = [
        &task("order-1")[..],
        &[("form", "hex"), ("message", "00 ff")],
    ]
    .concat();
    post(&page, "/task/edit", &fields).await;
    let edited = shop
        .tasks
        .find("mail.send", "order-1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(edited.message.as_deref(), Some(&[0, 255][..]));
    assert_eq!(logged(&shop).await, entry("update", "order-1", "done"));
}

impl Shop {
    fn clock_now(&self) -> Timestamp {
        use delayq_plugin::Clock;
        self.clock.now()
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_said_and_changes_nothing() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    for (path, fields, said) in [
        (
            "/task/move",
            &[("id", "order-1"), ("when", "soon")][..],
            "neither a span",
        ),
        ("/task/cancel", &[("id", "nobody")], "no such task"),
        ("/task/requeue", &[("id", "order-1")], "it is not dead"),
        ("/task/discard", &[("id", "order-1")], "it is not dead"),
        (
            "/task/edit",
            &[("id", "order-1"), ("form", "hex"), ("message", "0")],
            "two digits",
        ),
        ("/task/run-now", &[("id", "a b")], "invalid task id"),
        ("/dead/requeue", &[("rate", "fast")], "is not a rate"),
        ("/dead/requeue", &[("by", "grup")], "leave it out"),
        ("/dead/discard", &[("by", "group")], "is no condition"),
        (
            "/dead/discard",
            &[("by", "group"), ("group", " ")],
            "is no condition",
        ),
        ("/jobs/stop", &[("job", "7")], "no such job"),
        ("/tasks/cancel", &[("q", "")], "beginning of ids"),
        (
            "/tasks/cancel",
            &[("by", "id"), ("q", "order-1")],
            "beginning of ids",
        ),
    ] {
        let fields = [&[("type", "mail.send")], fields].concat();
        let answer = post(&page, path, &fields).await;
        let flash = answer.flash();
        assert!(
            flash.starts_with('-') && flash.contains(said),
            "{path}: {flash}"
        );
    }
}

#[tokio::test]
async fn a_type_is_not_changed_by_a_mistake() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    for (path, fields, said) in [
        ("/type/pause", &[("until", "soon")][..], "neither a span"),
        ("/type/pause", &[("until", "2020-01-01T00:00Z")], "is over"),
        (
            "/type/purge",
            &[("typed", "mail"), ("state", "scheduled")],
            "type the name",
        ),
        ("/type/drop", &[("typed", "")], "type the name"),
        ("/type/drop", &[("typed", "mail.send")], "has 4 scheduled"),
        (
            "/type/configure",
            &[("max_pending", "many")],
            "is not a number",
        ),
        (
            "/type/configure",
            &[("fleet_rate", "9/week")],
            "is not a rate",
        ),
        (
            "/type/configure",
            &[("fleet_concurrency", "0")],
            "at least 1",
        ),
    ] {
        let fields = [&[("name", "mail.send")], fields].concat();
        let flash = post(&page, path, &fields).await.flash();
        assert!(
            flash.starts_with('-') && flash.contains(said),
            "{path}: {flash}"
        );
    }
    assert_eq!(shop.tasks.stats("mail.send").await.unwrap().scheduled, 4);
    let flash = post(&page, "/type/pause", &[("name", "mail.*")])
        .await
        .flash();
    assert!(flash.contains("invalid task type"), "{flash}");
}

#[tokio::test]
async fn a_dead_task_is_requeued_or_discarded() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    let task = |id: &'static str| [("type", "order.cancel"), ("id", id)];
    post(&page, "/task/requeue", &task("dead-1")).await;
    assert_eq!(
        state(&shop, "order.cancel", "dead-1").await,
        Some(TaskState::Scheduled)
    );
    assert_eq!(logged(&shop).await, entry("requeue", "dead-1", "done"));
    post(&page, "/task/discard", &task("dead-2")).await;
    assert_eq!(state(&shop, "order.cancel", "dead-2").await, None);
    assert_eq!(logged(&shop).await, entry("discard", "dead-2", "done"));
    assert_eq!(
        state(&shop, "order.cancel", "dead-3").await,
        Some(TaskState::Dead)
    );
}

#[tokio::test]
async fn a_type_is_paused_resumed_configured_purged_and_dropped() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    let name = ("name", "mail.send");
    post(&page, "/type/pause", &[name, ("until", "30m")]).await;
    let stats = || async { shop.tasks.stats("mail.send").await.unwrap() };
    let until = stats().await.paused_until;
    assert_eq!(until, Some(shop.clock_now().plus(seconds(1_800))));
    assert_eq!(logged(&shop).await, entry("pause", "", "done"));
    assert!(get(&page, "/").await.text.contains("paused for 30m"));
    post(&page, "/type/resume", &[name]).await;
    assert_eq!(stats().await.paused_until, None);
    assert_eq!(logged(&shop).await, entry("resume", "", "done"));

    let settings = [name, ("max_pending", "1,000"), ("fleet_rate", "100/s")];
    post(&page, "/type/configure", &settings).await;
    let seen = stats().await;
    assert_eq!(
        (seen.max_pending, seen.fleet_concurrency),
        (Some(1_000), None)
    );
    assert_eq!(seen.fleet_rate.unwrap().to_string(), "100/s");
    assert_eq!(logged(&shop).await, entry("configure", "", "done"));

    let text = get(&page, "/type/purge?name=mail.send&state=scheduled")
        .await
        .text;
    assert!(text.contains("4 scheduled tasks"), "{text}");
    let typed = ("typed", "mail.send");
    let answer = post(&page, "/type/purge", &[name, typed, ("state", "scheduled")]).await;
    assert_eq!(answer.flash(), "+4 scheduled tasks purged");
    assert_eq!(
        logged(&shop).await,
        entry("purge", "all scheduled tasks", "done")
    );
    let answer = post(&page, "/type/drop", &[name, typed]).await;
    assert_eq!(
        (answer.header("location"), &*answer.flash()),
        ("/", "+mail.send is dropped")
    );
    assert_eq!(logged(&shop).await, entry("drop-type", "", "done"));
}

#[tokio::test]
async fn a_group_of_dead_tasks_is_requeued_after_its_number_was_shown() {
    let shop = Shop::busy().await;
    shop.kill("order.cancel", "dead-9", "quite another").await;
    let page = shop.page(Role::Admin);
    let group = "no van for dead-# within # s";
    let text = get(&page, "/dead").await.text;
    assert!(text.contains("dead/requeue?type=order.cancel&#38;by=group&#38;group=no+van"));
    let ask = "/dead/requeue?type=order.cancel&by=group&group=no+van+for+dead-%23+within+%23+s";
    assert!(get(&page, ask).await.text.contains("Requeue 3 dead tasks?"));
    let fields = [("type", "order.cancel"), ("by", "group"), ("group", group)];
    let answer = post(&page, "/dead/requeue", &fields).await;
    assert_eq!(answer.flash(), "+3 dead tasks requeued");
    let target = format!("error like {group:?}");
    assert_eq!(logged(&shop).await, entry("requeue", &target, "done"));
    assert_eq!(shop.tasks.stats("order.cancel").await.unwrap().dead, 1);
    let answer = post(&page, "/dead/discard", &[("type", "order.cancel")]).await;
    assert_eq!(answer.flash(), "+1 dead task discarded");
    assert!(
        get(&page, "/dead")
            .await
            .text
            .contains("1 dead task discarded")
    );
}

#[tokio::test]
async fn a_long_requeue_is_a_job_that_can_be_stopped() {
    let shop = Shop::busy().await;
    for number in 0..20 {
        shop.kill("slow", &format!("s-{number}"), "away").await;
    }
    let page = shop.page(Role::Operator);
    let answer = post(
        &page,
        "/dead/requeue",
        &[("type", "slow"), ("rate", "5/min")],
    )
    .await;
    assert!(
        answer.flash().contains("runs in the background"),
        "{}",
        answer.flash()
    );
    let text = get(&page, "/dead").await.text;
    assert!(
        text.contains("requeue slow") && text.contains("1 / 20"),
        "{text}"
    );
    let answer = post(&page, "/jobs/stop", &[("job", "1")]).await;
    assert_eq!(answer.flash(), "+stopped after 1 task");
    assert_eq!(
        logged(&shop).await,
        entry("stop requeue", "all dead tasks", "done")
    );
    assert!(get(&page, "/dead").await.text.contains("stopped by ann"));
    assert_eq!(shop.tasks.stats("slow").await.unwrap().dead, 19);
    assert_eq!(
        post(&page, "/jobs/stop", &[("job", "1")]).await.flash(),
        "-it had ended"
    );
}

#[tokio::test]
async fn many_are_cancelled_by_prefix_after_their_number_was_shown() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    let text = get(&page, "/tasks?type=mail.send&by=prefix&q=order-")
        .await
        .text;
    assert!(text.contains("tasks/cancel?type=mail.send&#38;by=prefix&#38;q=order-"));
    let text = get(&page, "/tasks/cancel?type=mail.send&by=prefix&q=order-")
        .await
        .text;
    assert!(text.contains("Cancel 3 scheduled tasks?"), "{text}");
    let fields = [("type", "mail.send"), ("by", "prefix"), ("q", "order-")];
    assert_eq!(
        post(&page, "/tasks/cancel", &fields).await.flash(),
        "+3 tasks cancelled"
    );
    assert_eq!(shop.tasks.stats("mail.send").await.unwrap().scheduled, 1);
    let (verb, _, end) = logged(&shop).await;
    assert_eq!((&*verb, &*end), ("cancel-all", "done"));
}

#[tokio::test]
async fn the_message_of_an_action_is_shown_once() {
    use axum::body::Body;
    use axum::http::Request;
    let shop = Shop::busy().await;
    let page = shop.page(Role::Operator);
    let answer = post(&page, "/type/resume", &[("name", "mail.send")]).await;
    let cookie = answer.header("set-cookie").to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let request = Request::get(answer.header("location")).header("cookie", cookie);
    let next = crate::shop::ask(&page, request.body(Body::empty()).unwrap()).await;
    assert!(next.text.contains("mail.send goes on"));
    assert!(next.header("set-cookie").contains("Max-Age=0"));
}

#[tokio::test]
async fn an_ended_task_shows_its_end() {
    let shop = Shop::busy().await;
    shop.end("order.cancel", "late-1", AttemptEnd::Expired)
        .await;
    let page = shop.page(Role::Admin);
    let text = get(&page, "/task?type=order.cancel&id=late-1").await.text;
    assert!(text.contains("expired") && text.contains("freed when the task ended"));
    assert!(
        !text.contains("action=\"/task/"),
        "nothing can be done to it"
    );
}
