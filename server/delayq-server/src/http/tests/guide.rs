//! The answers that the guide shows are those that are given.

use std::collections::BTreeSet;

use delayq_plugin::Namespace;
use delayq_service::access::Scope;
use serde_json::Value;

use super::{Site, TASKS};

const PAGE: &str = include_str!("../../../../../docs/guide/server-workers.md");
const TYPE: &str = "/v1/default/types/mail.send";

/// The answers that the page shows.
fn shown() -> Vec<Value> {
    let blocks = PAGE.split("\n```json\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("\n```").unwrap().0);
    let answers = blocks.flat_map(|block| serde_json::Deserializer::from_str(block).into_iter());
    answers.map(Result::unwrap).collect()
}

/// The names of the fields of an answer, also of those within it, but for headers.
fn fields(answer: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    match answer {
        Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name.clone());
                if name != "headers" {
                    names.extend(self::fields(value));
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names.extend(fields(item))),
        _ => {}
    }
    names
}

/// What became of each task of an answer.
fn outcomes(answer: &Value) -> Vec<Option<&Value>> {
    let one = std::slice::from_ref(answer);
    let all = answer.as_array().map_or(one, Vec::as_slice);
    all.iter().map(|one| one.get("outcome")).collect()
}

#[tokio::test]
async fn the_answers_to_a_worker_have_the_fields_that_the_guide_shows() {
    let site = Site::open().await;
    let token = site
        .token(&[Scope::Submit, Scope::Work, Scope::Read], "default", &[])
        .await;
    let ask = async |method: &str, path: &str, body: &str| {
        site.ask(&token, method, path, body).await.body
    };
    let claim = async || ask("POST", &format!("{TYPE}/claim?wait=10s"), "").await;
    let lock = |claimed: &Value| claimed["tasks"][0]["lock"].as_str().unwrap().to_owned();
    let create = format!("{TASKS}/order-42?group=tenant-7");
    ask("PUT", &create, r#"{"order":42}"#).await;
    let first = lock(&claim().await);
    let empty = ask("POST", &format!("{TYPE}/claim"), "").await;
    let task = async |end: &str, lock: &str, rest: &str| {
        let path = format!("{TASKS}/order-42/{end}?lock={lock}{rest}");
        ask("POST", &path, if end == "fail" { "no van" } else { "" }).await
    };
    let settled = task("fail", &first, "&retry_after=0").await;
    let claimed = claim().await;
    let second = lock(&claimed);
    let extended = task("extend", &second, "&lock_for=1m").await;
    ask("DELETE", &format!("{TASKS}/order-42"), "").await;
    let cancelled = task("extend", &second, "&lock_for=1m").await;
    let lost = task("extend", &first, "&lock_for=1m").await;
    let batch = r#"{"tasks":[{"type":"row.import"}],"then":{"type":"import.report"}}"#;
    ask("PUT", "/v1/default/batches/import-7", batch).await;
    let batch = ask("GET", "/v1/default/batches/import-7", "").await;
    // The same for many at once, and of a task that is looked up.
    let locks = [("order-42", &second), ("order-42", &first)];
    let locks = locks.map(|(id, lock)| serde_json::json!({"id": id, "lock": lock}));
    let body = serde_json::json!({"locks": locks}).to_string();
    let many_extended = ask("POST", &format!("{TYPE}/extend"), &body).await;
    let space = site.server.app.spaces.of(&Namespace::default()).await;
    let found = space.unwrap().tasks.find("mail.send", "order-42").await;
    assert!(found.unwrap().unwrap().cancel_requested);
    let ends = locks.map(|mut end| {
        end["end"] = "done".into();
        end
    });
    let body = serde_json::json!(ends).to_string();
    let many_settled = ask("POST", &format!("{TYPE}/settle"), &body).await;
    let given = [
        claimed,
        empty,
        settled,
        extended,
        cancelled,
        lost,
        many_settled,
        many_extended,
        batch,
    ];
    let shown = shown();
    assert_eq!(shown.len(), given.len(), "{shown:#?}");
    for (shown, given) in shown.iter().zip(&given) {
        assert_eq!(fields(shown), fields(given), "{given}");
        assert_eq!(outcomes(shown), outcomes(given), "{given}");
        for name in ["type", "title", "status", "is_repeatable"] {
            assert_eq!(shown[name], given[name], "{name}: {given}");
        }
    }
}
