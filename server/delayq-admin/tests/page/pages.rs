//! Each page shows what there is, and says so when there is nothing.

use axum::body::Body;
use axum::http::Request;
use delayq_admin::Role;
use delayq_plugin::{Clock, TaskId, TaskType, hours};
use scraper::{Html, Selector};

use crate::shop::{HISTORY_PAGES, PAGES, Shop, ask, get};

#[tokio::test]
async fn every_page_is_shown_with_and_without_tasks() {
    for shop in [Shop::empty(), Shop::busy().await] {
        let page = shop.page(Role::Admin);
        for path in PAGES.into_iter().chain(HISTORY_PAGES) {
            let answer = get(&page, path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
            let html = Html::parse_document(&answer.text);
            assert!(html.errors.is_empty(), "{path}: {:?}", html.errors);
            let count = |css: &str| html.select(&Selector::parse(css).unwrap()).count();
            assert_eq!(
                (count("h1"), count("main"), count("header"), count("a.skip")),
                (1, 1, 1, 1)
            );
            assert_eq!(
                count("style, [style], script:not([src]), [onclick]"),
                0,
                "{path}"
            );
            assert_eq!(
                count("th:not([scope])"),
                0,
                "{path}: a head without its scope"
            );
            every_field_has_a_label(&html, path);
            ids_are_unique(&html, path);
        }
    }
}

fn every_field_has_a_label(html: &Html, path: &str) {
    let labels: Vec<_> = html.select(&Selector::parse("label").unwrap()).collect();
    let fields = Selector::parse("input:not([type=hidden]), select, textarea").unwrap();
    for field in html.select(&fields) {
        let id = field.attr("id");
        let is_labelled = labels.iter().any(|label| label.attr("for") == id);
        assert!(id.is_some() && is_labelled, "{path}: {}", field.html());
    }
}

fn ids_are_unique(html: &Html, path: &str) {
    let with_id = Selector::parse("[id]").unwrap();
    let mut ids: Vec<_> = html.select(&with_id).map(|one| one.attr("id")).collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "{path}");
}

#[tokio::test]
async fn the_pages_say_what_there_is() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Viewer);
    for (path, expected) in [
        ("/", "no worker"),
        ("/", "† 3 dead"),
        ("/", "paused"),
        ("/", "59 s"),
        ("/type?name=mail.send", "data-figures"),
        ("/type?name=mail.send", "3</span> in this time"),
        ("/type?name=mail.send", "shop-3, process 17"),
        ("/tasks?type=mail.send", "order-2"),
        ("/tasks?type=mail.send&by=prefix&q=due", "due-1"),
        ("/tasks?type=mail.send&by=header&q=tenant%3Dt-1", "order-2"),
        (
            "/tasks?type=order.cancel&state=dead&by=error&q=dead-2",
            "no van for dead-2",
        ),
        ("/tasks?type=mail.send&by=header&q=x", "NAME=VALUE"),
        ("/task?type=mail.send&id=order-1", "&#34;order&#34;: 7"),
        ("/task?type=mail.send&id=order-1&as=hex", "7b 22 6f 72"),
        (
            "/task?type=order.cancel&id=dead-1",
            "no van for dead-1 within 30 s",
        ),
        ("/dead", "no van for dead-# within # s"),
        ("/dead?type=mail.*", "Nothing is dead"),
        ("/instances", "shop-3"),
        ("/log", "10.0.0.9"),
        ("/health", "<code>delayq resume sms.sent</code>"),
        ("/health", "/dead?type="),
        ("/history", "no van for dead-2 within 30 s"),
        ("/history?id=done-1", "✓</span> done"),
        (
            "/history?error=dead-3",
            "/task?type=order.cancel&#38;id=dead-3",
        ),
        ("/history?outcome=expired", "No life"),
        ("/history?since=yesterday", "yesterday"),
        ("/history?error=van", "/history.jsonl?error=van"),
    ] {
        let text = get(&page, path).await.text;
        let text = text.replace("<span aria-hidden=\"true\">†</span>", "†");
        assert!(text.contains(expected), "{path}: {expected}\n{text}");
    }
}

#[tokio::test]
async fn the_page_of_a_task_shows_its_lives_also_when_the_store_has_forgotten_it() {
    use delayq_plugin::history::{Life, LifeOutcome};
    let shop = Shop::busy().await;
    let task_type = TaskType::new("order.cancel").unwrap();
    let id = TaskId::new("gone-1").unwrap();
    let mut life = Life::new(task_type, id, LifeOutcome::Dead, shop.clock.now());
    life.error = Some("no van, long ago".to_owned());
    shop.history.record(&[life]).await.unwrap();
    let page = shop.page(Role::Viewer);
    for (id, expected) in [("gone-1", "no van, long ago"), ("done-1", "Ended lives")] {
        let text = get(&page, &format!("/task?type=order.cancel&id={id}"))
            .await
            .text;
        assert!(text.contains(expected), "{id}: {text}");
    }
}

#[tokio::test]
async fn an_exact_id_leads_to_its_task() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Viewer);
    let answer = get(&page, "/tasks?type=mail.send&by=id&q=order-1").await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("location"), "/task?type=mail.send&id=order-1");
    let answer = get(&page, "/tasks?type=mail.send&by=id&q=nobody").await;
    assert!(answer.text.contains("Nothing found"));
}

#[tokio::test]
async fn types_and_tasks_are_turned_page_by_page() {
    let shop = Shop::empty();
    for number in 0..120 {
        shop.send(&format!("type.{number:03}"), "a", hours(1)).await;
        shop.send("many", &format!("task-{number:03}"), hours(1))
            .await;
    }
    let page = shop.page(Role::Viewer);
    let mut seen = 0;
    let mut path = "/tasks?type=many".to_owned();
    loop {
        let text = get(&page, &path).await.text;
        let html = Html::parse_document(&text);
        seen += html.select(&Selector::parse("tbody tr").unwrap()).count();
        let next = Selector::parse("a[rel=next]").unwrap();
        match html.select(&next).next() {
            Some(next) => path = next.attr("href").unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, 120);
    let rows = |text: &str| text.matches("class=\"row\"").count();
    assert_eq!(rows(&get(&page, "/?q=type.").await.text), 50);
    assert_eq!(rows(&get(&page, "/?q=type.&page=3").await.text), 20);
}

#[tokio::test]
async fn the_log_is_filtered_and_downloaded_as_lines_of_json() {
    let shop = Shop::busy().await;
    for number in 0..600 {
        let actor = format!("user-{}", number % 2);
        let operator = delayq_ops::Operator::new(&shop.tasks, actor, "test");
        operator.resume("mail.send").await.unwrap();
    }
    let page = shop.page(Role::Viewer);
    let answer = get(&page, "/log.jsonl?actor=user-1").await;
    assert!(
        answer
            .header("content-disposition")
            .contains("delayq-actions.jsonl")
    );
    let lines: Vec<serde_json::Value> = answer
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((lines.len(), &lines[0]["verb"]), (300, &"resume".into()));
    let text = get(&page, "/log?actor=user-1").await.text;
    assert_eq!(text.matches("data-number").count(), 50);
    assert!(text.contains("Earlier") && text.contains("log.jsonl?actor=user-1"));
}

#[tokio::test]
async fn headers_let_nothing_in_and_files_are_kept() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Viewer);
    for path in ["/", "/nowhere", "/dead/requeue"] {
        let answer = get(&page, path).await;
        let policy = answer.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'"),
            "{path}"
        );
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "same-origin");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    let text = get(&page, "/").await.text;
    let html = Html::parse_document(&text);
    let files = Selector::parse("script[src], link[rel=stylesheet]").unwrap();
    let mut count = 0;
    for file in html.select(&files) {
        let path = file.attr("src").or(file.attr("href")).unwrap();
        let answer = get(&page, path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("cache-control").contains("immutable") && !answer.text.is_empty());
        let again = Request::get(path).header("if-none-match", answer.header("etag"));
        let again = ask(&page, again.body(Body::empty()).unwrap()).await;
        assert_eq!((again.status.as_u16(), again.text.len()), (304, 0));
        count += 1;
    }
    assert_eq!(count, 7);
    let old = get(&page, "/assets/0000/page.js").await;
    assert_eq!(
        (old.status.as_u16(), old.header("cache-control")),
        (200, "no-cache")
    );
    assert_eq!(get(&page, "/assets/0000/..%2fCargo.toml").await.status, 404);
    assert_eq!(get(&page, "/nowhere").await.status, 404);
}

#[tokio::test]
async fn the_history_is_downloaded_as_lines_of_json() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Viewer);
    let answer = get(&page, "/history.jsonl?outcome=dead").await;
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    let lines = answer.text.lines().map(serde_json::from_str);
    let lines: Vec<serde_json::Value> = lines.collect::<Result<_, _>>().unwrap();
    let ids: Vec<_> = lines
        .iter()
        .map(|life| life["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["dead-3", "dead-2", "dead-1"]);
    let refused = get(&page, "/history.jsonl?since=yesterday").await;
    assert_eq!(refused.status, 400);
}
