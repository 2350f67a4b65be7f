//! Operations, asked without a door.

use std::time::Duration;

use axum::http::{Extensions, HeaderValue};
use delayq_plugin::{Namespace, TaskState, TypePattern};
use serde_json::json;

use super::*;
use crate::access::{Caller, Scope};
use crate::app::App;
use crate::context::Context;
use crate::draining::Draining;
use crate::problem::Problem;
use crate::testing;

/// Callers with a token each, for these types of the default namespace.
async fn contexts<const N: usize>(scope: Scope, types: [&[&str]; N]) -> [Context; N] {
    let app = App::open(testing::in_memory(), Draining::default()).await;
    let (app, nothing) = (app.unwrap(), Extensions::new());
    let mut contexts = Vec::new();
    for types in types {
        let name = format!("test {types:?}");
        let token = testing::new_token(&app, &name, &[scope], "default", types).await;
        let bearer = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        let caller = Caller::presenting(Some(&bearer), &nothing, &app.tokens).unwrap();
        let space = app.spaces.of(&Namespace::default()).await.unwrap();
        contexts.push(Context::within(&app, caller, space));
    }
    contexts.try_into().unwrap()
}

#[tokio::test]
async fn what_takes_long_stops_with_the_secret_that_asked_for_it() {
    let [caller] = contexts(Scope::Operate, [&[]]).await;
    let done = caller.while_admitted(async { Ok(7) }).await;
    assert_eq!(done.unwrap(), 7);
    let tokens = &caller.app.tokens;
    let id = &caller.caller.token.id;
    tokens.rotate(id, Duration::from_hours(1)).await.unwrap();
    caller.recheck().unwrap();
    tokens.rotate(id, Duration::ZERO).await.unwrap();
    let endless = std::future::pending::<Result<(), Problem>>();
    let stopped = caller.while_admitted(endless).await.unwrap_err();
    assert_eq!(stopped.status(), 401, "{stopped}");
}

#[tokio::test]
async fn a_target_is_set_shown_without_secrets_logged_and_removed() {
    let [admin] = contexts(Scope::Admin, [&[]]).await;
    let (space, operator) = (&*admin.space, admin.operator());
    let mail = TypePattern::new("mail.*").unwrap();
    let missing = target::get(space, &mail).await.unwrap_err();
    assert_eq!(missing.status(), 404, "{missing}");
    let http = json!({"url": "https://example.org/hook?key=1", "headers": {"x-key": "hush"}});
    let sent = json!({"http": http, "timeout": "10s"}).to_string();
    let made = target::set(space, &operator, &mail, sent.as_bytes()).await;
    let (made, secret) = made.unwrap();
    let secret = secret.expect("a new secret");
    assert!(secret.starts_with("whsec_"), "{secret}");
    let shown = json!(target::get(space, &mail).await.unwrap());
    assert_eq!(json!(made), shown);
    assert_eq!(shown["http"]["headers"]["x-key"], "***");
    let text = shown.to_string();
    assert!(!text.contains("hush") && !text.contains(&secret), "{text}");
    assert!(
        text.contains("/hook?***\"") && !text.contains("key=1"),
        "{text}"
    );
    // Sent back as it was shown, it stays as it is.
    let again = target::set(space, &operator, &mail, text.as_bytes()).await;
    let (again, secret) = again.unwrap();
    assert_eq!((json!(again), secret), (shown, None));
    // What is never shown goes to no other server, and is not made up.
    let other_query = text.replace("/hook", "/other");
    let refused = target::set(space, &operator, &mail, other_query.as_bytes()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("give its query"), "{refused}");
    let near = text.replace("/hook?***", "/other");
    target::set(space, &operator, &mail, near.as_bytes())
        .await
        .unwrap();
    let stolen = text.replace("example.org/hook?***", "example.com/hook");
    let refused = target::set(space, &operator, &mail, stolen.as_bytes()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("x-key"), "{refused}");
    let order = TypePattern::new("order").unwrap();
    let unsigned = text.replace(r#""x-key":"***""#, r#""x-key":"hush""#);
    for made_up in [&text, &unsigned] {
        let refused = target::set(space, &operator, &order, made_up.as_bytes()).await;
        assert_eq!(refused.unwrap_err().status(), 400, "{made_up}");
    }
    let inner = json!({"http": {"url": "https://10.0.0.1/"}}).to_string();
    for bad in ["", "7", "[]", "{}", r#"{"http": {}}"#, &inner] {
        let refused = target::set(space, &operator, &mail, bad.as_bytes()).await;
        assert_eq!(refused.unwrap_err().status(), 400, "{bad}");
    }
    target::remove(space, &operator, &mail).await.unwrap();
    let twice = target::remove(space, &operator, &mail).await.unwrap_err();
    assert_eq!(twice.status(), 404, "{twice}");
    let log = admin.store().actions(None, 10).await.unwrap();
    let verbs: Vec<_> = log.iter().map(|one| one.action.verb.as_str()).collect();
    assert_eq!(
        verbs,
        ["remove-target", "set-target", "set-target", "set-target"]
    );
    assert_eq!(log[2].action.detail, "https://example.org/hook");
    assert!(log[1].action.actor.starts_with("test "));
}

#[tokio::test]
async fn an_application_announces_what_its_token_is_for_and_withdraws_it() {
    let [order, mail] = contexts(Scope::Work, [&["order.*"], &["mail.*"]]).await;
    let space = &*order.space;
    let url = "https://shop.example.org/delayq/work";
    let of = |url: &str, types: &[&str], secs| callee::Announcement {
        url: url.to_owned(),
        types: types.iter().map(ToString::to_string).collect(),
        lease: Some(Duration::from_secs(secs)),
    };
    let good = of(url, &["order.cancel"], 30);
    good.clone()
        .take(space, &order.caller, "shop-1")
        .await
        .unwrap();
    for (who, name, refused, status) in [
        (&order, "shop-1", of(url, &["mail.send"], 30), 403),
        (&order, "a b", good, 400),
        (&order, "shop-1", of(url, &[], 30), 400),
        (&order, "shop-1", of(url, &["order.cancel"], 1), 400),
        (
            &order,
            "shop-1",
            of("https://10.0.0.1/", &["order.cancel"], 30),
            400,
        ),
        (&order, "shop-1", of("nonsense", &["order.cancel"], 30), 400),
        // That of another token is not taken.
        (&mail, "shop-1", of(url, &["mail.send"], 30), 403),
    ] {
        let said = refused.take(space, &who.caller, name).await.unwrap_err();
        assert_eq!(said.status(), status, "{name}: {said}");
    }
    let foreign = callee::withdraw(space, &mail.caller, "shop-1").await;
    assert_eq!(foreign.unwrap_err().status(), 403);
    let all = space.push.callees().await.unwrap();
    let [(name, announced)] = &all[..] else {
        panic!("{all:?}");
    };
    assert_eq!((name.as_str(), announced.url.as_str()), ("shop-1", url));
    for is_there in [true, false] {
        let withdrawn = callee::withdraw(space, &order.caller, "shop-1").await;
        assert_eq!(withdrawn.unwrap(), is_there);
    }
}

#[test]
fn nobody_means_every_dead_task_by_mistake() {
    let refusal = |wanted: WantedDead| {
        let refused = wanted.selection("mail".to_owned());
        refused.map(drop).map_err(|problem| problem.to_string())
    };
    let none = refusal(WantedDead::default()).unwrap_err();
    assert!(none.contains("\"all\": true"), "{none}");
    let all = || WantedDead {
        all: true,
        ..WantedDead::default()
    };
    refusal(all()).unwrap();
    // An empty text is no condition, also beside what would do alone.
    for text in ["", " \t"] {
        let text = || Some(text.to_owned());
        for wanted in [WantedDead::default(), all()] {
            let prefix = WantedDead {
                id_prefix: text(),
                ..wanted.clone()
            };
            let group = WantedDead {
                group: text(),
                ..wanted.clone()
            };
            let contains = WantedDead {
                error_contains: text(),
                ..wanted.clone()
            };
            let like = WantedDead {
                error_like: text(),
                ..wanted
            };
            for wanted in [prefix, group, contains, like] {
                let said = refusal(wanted.clone()).unwrap_err();
                assert!(said.contains("is no condition"), "{wanted:?}: {said}");
            }
        }
    }
}

#[test]
fn nobody_means_every_task_by_mistake() {
    let running = WantedTasks {
        state: Some(TaskState::Running),
        ..WantedTasks::default()
    };
    for wanted in [WantedTasks::default(), running] {
        let said = wanted.filter().unwrap_err().to_string();
        assert!(said.contains("\"all\": true"), "{said}");
    }
    let all = WantedTasks {
        all: true,
        ..WantedTasks::default()
    };
    assert!(all.filter().is_ok());
}
