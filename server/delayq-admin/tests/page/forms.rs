//! A form of another site, or with a token that is missing or not the viewer's, changes nothing.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use delayq_admin::{Admin, Role, Viewer};

use crate::shop::{Answer, Shop, ask, encoded, get, token};

/// Pauses `mail.send` with this token and these headers.
async fn pause(page: &Router, token: Option<&str>, headers: &[(&str, &str)]) -> Answer {
    let mut fields = vec![("name", "mail.send")];
    fields.extend(token.map(|token| ("token", token)));
    let mut request = Request::post("/type/pause").header("host", "shop.example");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    ask(page, request.body(Body::from(encoded(&fields))).unwrap()).await
}

async fn is_paused(shop: &Shop) -> bool {
    let paused = shop
        .tasks
        .stats("mail.send")
        .await
        .unwrap()
        .paused_until
        .is_some();
    shop.tasks.resume("mail.send").await.unwrap();
    paused
}

#[tokio::test]
async fn a_token_that_is_missing_changed_or_of_another_is_refused() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Operator);
    let own = token(&page).await;
    let bob = Admin::new(shop.tasks.clone()).secret([7; 32]);
    let bob = bob
        .authorize(|_| Some(Viewer::new("bob", Role::Operator)))
        .router();
    let bobs = token(&bob).await;
    let mut changed = own.clone();
    changed.replace_range(0..1, if own.starts_with('0') { "1" } else { "0" });
    for bad in [
        None,
        Some(""),
        Some("x"),
        Some(&*changed),
        Some(&own[..62]),
        Some(&*bobs),
    ] {
        let answer = pause(&page, bad, &[]).await;
        assert_eq!(answer.status, 403, "{bad:?}");
        assert!(
            answer.text.contains("Load the page again"),
            "{}",
            answer.text
        );
        assert!(!is_paused(&shop).await, "{bad:?}");
    }
    assert_eq!(pause(&page, Some(&own), &[]).await.status, 303);
    assert!(is_paused(&shop).await);
}

#[tokio::test]
async fn a_form_of_another_site_is_refused_even_with_a_token() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Operator);
    let own = token(&page).await;
    for (headers, is_good) in [
        (&[("sec-fetch-site", "cross-site")][..], false),
        (&[("sec-fetch-site", "same-site")], false),
        (&[("sec-fetch-site", "none")], false),
        (&[("origin", "https://evil.example")], false),
        (&[("origin", "https://shop.example.evil.example")], false),
        (&[("origin", "shop.example")], false),
        (
            &[
                ("origin", "https://evil.example"),
                ("x-forwarded-host", "evil.example"),
            ],
            false,
        ),
        (
            &[("sec-fetch-site", "same-origin"), ("origin", "null")],
            true,
        ),
        (&[("origin", "null")], false),
        (&[("origin", "https://shop.example")], true),
        (&[], true),
    ] {
        let answer = pause(&page, Some(&own), headers).await;
        assert_eq!(answer.status == 303, is_good, "{headers:?}");
        assert_eq!(is_paused(&shop).await, is_good, "{headers:?}");
    }
}

#[tokio::test]
async fn processes_with_one_secret_take_each_others_forms() {
    let shop = Shop::busy().await;
    let process = || {
        let admin = Admin::new(shop.tasks.clone()).secret([7; 32]);
        admin
            .authorize(|_| Some(Viewer::new("ann", Role::Operator)))
            .router()
    };
    let own = token(&process()).await;
    assert_eq!(pause(&process(), Some(&own), &[]).await.status, 303);
}

#[tokio::test]
async fn looking_changes_nothing() {
    let shop = Shop::busy().await;
    let page = shop.page(Role::Admin);
    let before = shop.log().await;
    for route in Admin::routes() {
        let fields = "type=order.cancel&name=order.cancel&id=dead-1&typed=order.cancel&by=group";
        let answer = get(&page, &format!("{}?{fields}", route.path)).await;
        let is_known = [200, 303, 400, 405].contains(&answer.status.as_u16());
        assert!(is_known, "{}: {}", route.path, answer.status);
    }
    assert_eq!(shop.log().await, before);
    assert_eq!(shop.tasks.stats("order.cancel").await.unwrap().dead, 3);
}
