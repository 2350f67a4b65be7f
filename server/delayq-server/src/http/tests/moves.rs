//! Moves of a namespace, over HTTP.

use delayq_service::config::NamespaceConfig;

use super::*;

#[tokio::test]
async fn a_move_is_begun_shown_and_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let mut config = Config {
        store: url("own.sqlite"),
        pools: [("fast".to_owned(), url("fast.sqlite"))].into(),
        ..Config::default()
    };
    let shop = NamespaceConfig::default();
    config.namespaces.insert("shop".to_owned(), shop);
    let site = Site::of(config).await;
    let token = site.token(&[Scope::Operate], "shop", &[]).await;
    let ask = async |method: &str, query: &str| {
        let path = format!("/v1/shop/move{query}");
        site.ask(&token, method, &path, "").await
    };
    let before = ask("GET", "").await;
    assert_eq!(before.body["phase"], "done", "{before:?}");
    assert_eq!(before.body["about"], "in the store of the server");
    let nowhere = ask("POST", "?to=slow").await;
    assert_eq!(nowhere.status, StatusCode::BAD_REQUEST);
    let said = nowhere.body["detail"].as_str().unwrap();
    assert!(said.contains("there are fast, store"), "{said}");
    let none = ask("DELETE", "").await;
    assert_eq!(none.status, StatusCode::CONFLICT, "{none:?}");

    // Nobody drives it yet: it can be taken back.
    let begun = ask("POST", "?to=fast").await;
    assert_eq!(begun.status, StatusCode::ACCEPTED);
    assert_eq!(
        (&begun.body["phase"], &begun.body["to"]),
        (&json!("preparing"), &json!("fast"))
    );
    let elsewhere = ask("POST", "?to=store").await;
    assert_eq!(elsewhere.status, StatusCode::CONFLICT);
    let back = ask("DELETE", "").await;
    assert_eq!(back.body["phase"], "done", "{back:?}");

    for _ in 0..2 {
        assert_eq!(ask("POST", "?to=fast").await.status, StatusCode::ACCEPTED);
    }
    let reader = site.token(&[Scope::Read], "shop", &[]).await;
    let log = site.ask(&reader, "GET", "/v1/shop/log", "").await;
    let verbs = log.body.as_array().unwrap().iter();
    let verbs: Vec<_> = verbs.map(|one| one["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["move", "cancel-move", "move"]);
    site.server.close().await;
}
