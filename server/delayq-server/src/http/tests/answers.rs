//! Answers that other crates write, read by the schemas that the document has for them.

use delayq_plugin::Namespace;
use delayq_plugin::history::HistoryRetention;
use delayq_service::access::Scope;
use delayq_tests::rig::until;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::answer::{
    BatchProgressForm, ChangeReportForm, FateForm, ForgottenForm, HistoryPageForm,
};
use super::{Site, TASKS};

/// Reads an answer by its schema, which has to have every field of it.
fn read<T: DeserializeOwned + Serialize>(answer: &Value) {
    let form: T = serde_json::from_value(answer.clone())
        .unwrap_or_else(|error| panic!("{error}: {answer:#}"));
    assert_known(answer, &serde_json::to_value(form).unwrap());
}

fn assert_known(answer: &Value, form: &Value) {
    match (answer, form) {
        (Value::Object(answer), Value::Object(form)) => {
            for (name, value) in answer {
                let known = form.get(name);
                assert_known(
                    value,
                    known.unwrap_or_else(|| panic!("{name} has no schema")),
                );
            }
        }
        (Value::Array(answer), Value::Array(form)) => {
            let pairs = answer.iter().zip(form);
            pairs.for_each(|(answer, form)| assert_known(answer, form));
        }
        (answer, form) => assert_eq!(answer, form),
    }
}

#[tokio::test]
async fn answers_have_the_fields_of_their_schemas_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = delayq_service::testing::in_memory();
    let file = folder.path().join("h.sqlite");
    config.history = Some(format!("sqlite:{}", file.display()));
    "all".clone_into(&mut config.history_record);
    let site = Site::of(config).await;
    let token = site.token(&[Scope::Admin], "default", &[]).await;
    let ask = async |method: &str, path: &str, body: &str| {
        let path = path.replace("TASKS", TASKS);
        let answer = site.ask(&token, method, &path, body).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        answer.body
    };
    let space = site.server.app.spaces.of(&Namespace::default()).await;
    let history = space.unwrap().tasks.history().unwrap();
    let shipping = tokio::spawn(history.ship(HistoryRetention::default()));

    let batch = r#"{"tasks": [{"type": "mail.send", "id": "a", "group": "g", "json": {"n": 1}},
        {"type": "mail.send", "message_base64": "/w=="}], "then": {"type": "report"}}"#;
    ask("PUT", "/v1/default/batches/import", batch).await;
    read::<BatchProgressForm>(&ask("GET", "/v1/default/batches/import", "").await);
    let claim = "/v1/default/types/mail.send/claim?limit=2";
    let claimed = ask("POST", claim, "").await;
    read::<FateForm>(&ask("GET", "TASKS/a/history", "").await);
    for task in claimed["tasks"].as_array().unwrap() {
        let (id, lock) = (task["id"].as_str().unwrap(), task["lock"].as_str().unwrap());
        let id = id.replace('/', "%2F");
        let fail = format!("TASKS/{id}/fail?lock={lock}&retry_after=0s");
        ask("POST", &fail, "no van").await;
    }
    read::<FateForm>(&ask("GET", "TASKS/a/history", "").await);
    let claimed = ask("POST", claim, "").await;
    for task in claimed["tasks"].as_array().unwrap() {
        let (id, lock) = (task["id"].as_str().unwrap(), task["lock"].as_str().unwrap());
        let id = id.replace('/', "%2F");
        ask("POST", &format!("TASKS/{id}/done?lock={lock}"), "").await;
    }
    read::<ChangeReportForm>(&ask("DELETE", "/v1/default/batches/import", "").await);
    let page = until("both lives are in the history", async || {
        let page = ask("GET", "/v1/default/history?limit=1&type=mail.send", "").await;
        page["next"].is_string().then_some(page)
    });
    let page = page.await;
    read::<HistoryPageForm>(&page);
    assert_eq!(page["lives"][0]["errors"][0]["error"], "no van", "{page:#}");
    read::<FateForm>(&ask("GET", "TASKS/a/history", "").await);
    let forget = ask("POST", "/v1/default/history/forget", r#"{"group": "g"}"#).await;
    read::<ForgottenForm>(&forget);
    let all = r#"{"all": true, "dry_run": true}"#;
    let all = ask("POST", "/v1/default/types/mail.send/cancel-all", all).await;
    read::<ChangeReportForm>(&all);
    shipping.abort();
}
