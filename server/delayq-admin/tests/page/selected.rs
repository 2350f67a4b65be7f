//! Tasks, types and groups that are selected in a list are changed together.

use delayq_admin::Role;
use delayq_plugin::{TaskState, seconds};
use scraper::{Html, Selector};

use crate::shop::{Shop, get, post};

async fn state(shop: &Shop, task_type: &str, id: &str) -> Option<TaskState> {
    let task = shop.tasks.find(task_type, id).await.unwrap();
    task.map(|task| task.state)
}

fn task(text: &'static str) -> (&'static str, &'static str) {
    ("task", text)
}

#[tokio::test]
async fn selected_tasks_of_several_types_are_cancelled_and_the_way_back_is_kept() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Operator);
    let picked = [
        task("mail.send order-0"),
        task("mail.send order-1"),
        task("order.cancel runs-1"),
        task("order.cancel done-1"),
        ("back", "/tasks?type=mail.send&state=scheduled"),
    ];
    let answer = post(&page, "/selected/cancel", &picked).await;
    let said = "+2 tasks cancelled, 1 running task asked to stop; 1 task unchanged: not in a \
                state that allows it";
    assert_eq!(answer.flash(), said);
    assert_eq!(answer.header("location"), picked[4].1);
    for id in ["order-0", "order-1"] {
        let ended = state(&shop, "mail.send", id).await;
        assert_eq!(ended, Some(TaskState::Cancelled));
    }
    let verbs: Vec<_> = shop
        .log()
        .await
        .into_iter()
        .map(|one| one.action.verb)
        .collect();
    assert_eq!(verbs.iter().filter(|verb| *verb == "cancel").count(), 4);
    for evil in ["//evil.example", "https://evil.example", "/\\evil.example"] {
        let picked = [task("mail.send order-2"), ("back", evil)];
        let answer = post(&page, "/selected/run-now", &picked).await;
        assert_eq!(answer.header("location"), "/", "{evil}");
    }
}

#[tokio::test]
async fn selected_tasks_are_moved_started_requeued_and_discarded() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    let (one, two) = (task("mail.send order-0"), task("mail.send order-1"));
    let answer = post(&page, "/selected/move", &[one, two, ("when", "2h")]).await;
    assert_eq!(answer.flash(), "+2 tasks moved");
    let moved = shop
        .tasks
        .find("mail.send", "order-1")
        .await
        .unwrap()
        .unwrap();
    let now = shop.tasks.stats("mail.send").await.unwrap().now;
    assert_eq!(moved.at, now.plus(seconds(7_200)));
    let answer = post(&page, "/selected/run-now", &[one, two]).await;
    assert_eq!(answer.flash(), "+2 tasks due now");
    let (one, two) = (task("order.cancel dead-1"), task("order.cancel dead-2"));
    let answer = post(&page, "/selected/requeue", &[one, two]).await;
    assert_eq!(answer.flash(), "+2 tasks requeued");
    let gone = task("order.cancel dead-3");
    let answer = post(&page, "/selected/discard", &[one, gone]).await;
    let said = "+1 task discarded; 1 task unchanged: not in a state that allows it";
    assert_eq!(answer.flash(), said);
    assert_eq!(state(&shop, "order.cancel", "dead-3").await, None);
}

#[tokio::test]
async fn a_form_without_a_selection_changes_nothing() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    let before = shop.log().await;
    for path in [
        "/selected/cancel",
        "/selected/run-now",
        "/selected/requeue",
        "/selected/discard",
        "/types/pause",
        "/dead/groups/discard",
    ] {
        let flash = post(&page, path, &[]).await.flash();
        assert!(
            flash.starts_with("-not done") && flash.contains("at least one"),
            "{flash}"
        );
    }
    let flash = post(&page, "/selected/discard", &[task("order.cancel")]).await;
    assert!(
        flash.flash().contains("invalid task id"),
        "{}",
        flash.flash()
    );
    assert_eq!(shop.log().await, before);
}

#[tokio::test]
async fn selected_types_are_paused_and_resumed() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Operator);
    let types = [
        ("name", "mail.send"),
        ("name", "order.cancel"),
        ("until", "30m"),
    ];
    let answer = post(&page, "/types/pause", &types).await;
    assert!(
        answer.flash().starts_with("+2 types paused until"),
        "{}",
        answer.flash()
    );
    let is_paused = async |name: &str| shop.tasks.stats(name).await.unwrap().paused_until.is_some();
    assert!(is_paused("mail.send").await && is_paused("order.cancel").await);
    let answer = post(&page, "/types/resume", &types).await;
    assert_eq!(answer.flash(), "+2 types resumed");
    assert!(!is_paused("mail.send").await);
}

#[tokio::test]
async fn selected_groups_of_dead_tasks_are_requeued_and_discarded_as_one_job() {
    let shop = Shop::busy().await;
    shop.kill("order.cancel", "dead-9", "quite another").await;
    shop.kill("fax.sent", "dead-8", "").await;
    let page = shop.page(Role::Admin);
    let text = get(&page, "/dead").await.text;
    let van = "order.cancel no van for dead-# within # s";
    assert!(
        text.contains(&format!("name=\"group\" value=\"{van}\"")),
        "{text}"
    );
    let groups = [("group", van), ("group", "fax.sent "), ("rate", "9/s")];
    let asked = post(&page, "/dead/groups/requeue", &groups).await;
    assert_eq!(asked.header("hx-push-url"), "false");
    for part in [
        "Requeue 4 dead tasks?",
        "value=\"9/s\"",
        "<td class=\"n\">3</td>",
    ] {
        assert!(asked.text.contains(part), "{part}: {}", asked.text);
    }
    assert_eq!(shop.tasks.stats("fax.sent").await.unwrap().dead, 1);
    let sure = ("sure", "yes");
    let answer = post(&page, "/dead/groups/requeue", &[groups[0], groups[1], sure]).await;
    assert_eq!(answer.flash(), "+4 dead tasks requeued");
    let other = ("group", "order.cancel quite another");
    let asked = post(&page, "/dead/groups/discard", &[other, other]).await;
    assert!(
        asked.text.contains("Discard 1 dead task?"),
        "{}",
        asked.text
    );
    let answer = post(&page, "/dead/groups/discard", &[other, sure]).await;
    assert_eq!(answer.flash(), "+1 dead task discarded");
    assert_eq!(shop.tasks.stats("order.cancel").await.unwrap().dead, 0);
    let flash = post(&page, "/dead/groups/discard", &[other, sure]).await;
    let flash = flash.flash();
    assert!(
        flash.starts_with("-discard failed: no dead task"),
        "{flash}"
    );
}

/// A browser makes every line break of a form `\r\n`.
#[tokio::test]
async fn a_group_with_line_breaks_in_its_error_is_found_again() {
    let shop = Shop::busy().await;
    for (id, error) in [("1", "no van\n at north\r\n at 5"), ("2", "no van\n at 7")] {
        shop.kill("order.cancel", id, error).await;
    }
    let page = shop.page(Role::Admin);
    let (one, two) = ("no van\r\n at north\r\n at #", "no van\r\n at #");
    let group = [("type", "order.cancel"), ("by", "group"), ("group", one)];
    let answer = post(&page, "/dead/requeue", &group).await;
    assert_eq!(answer.flash(), "+1 dead task requeued");
    let pick = format!("order.cancel {two}");
    let group = [("group", pick.as_str()), ("sure", "yes")];
    let answer = post(&page, "/dead/groups/discard", &group).await;
    assert_eq!(answer.flash(), "+1 dead task discarded");
}

/// Enter in a field or on a tick presses the first button of the form.
#[tokio::test]
async fn enter_moves_or_does_nothing() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    let move_to = "/selected/move";
    for (path, first) in [
        ("/tasks?type=mail.send&state=scheduled", Some(move_to)),
        ("/search?q=order", Some(move_to)),
        ("/tasks?type=order.cancel&state=running", None),
        ("/tasks?type=order.cancel&state=dead", None),
        ("/recurring", None),
        ("/dead", None),
    ] {
        let html = Html::parse_document(&get(&page, path).await.text);
        let buttons = Selector::parse("form#selected button").unwrap();
        let button = html.select(&buttons).next().unwrap().value();
        let is_enabled = button.attr("disabled").is_none();
        let pressed = button.attr("formaction").filter(|_| is_enabled);
        assert_eq!((pressed, is_enabled), (first, first.is_some()), "{path}");
    }
}
