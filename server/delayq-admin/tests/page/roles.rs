//! Every route, by every role: the list is that of the router itself.

use axum::body::Body;
use axum::http::{Request, header};
use delayq_admin::{Admin, Role, Viewer};
use delayq_plugin::store::Chronicle;

use crate::shop::{Shop, ask, encoded, get};

const ROLES: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

/// A request of this route with a good token, if the viewer may get one.
async fn knock(shop: &Shop, admin: Admin, method: &str, path: &str) -> (u16, String) {
    let page = admin.router();
    let text = get(&page, "/dead/requeue?type=order.cancel").await.text;
    let token = text.split_once("name=\"token\" value=\"");
    let token = token.map_or("", |(_, rest)| rest.split('"').next().unwrap());
    let before = shop.store.actions(None, 1).await.unwrap();
    let request = Request::builder().method(method).uri(path);
    let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let fields = [
        ("token", token),
        ("type", "order.cancel"),
        ("name", "order.cancel"),
        ("id", "dead-1"),
        ("typed", "order.cancel"),
        ("by", "prefix"),
        ("q", "x"),
    ];
    let body = if method == "POST" {
        encoded(&fields)
    } else {
        String::new()
    };
    let answer = ask(&page, request.body(Body::from(body)).unwrap()).await;
    if answer.status == 403 {
        let after = shop.store.actions(None, 1).await.unwrap();
        assert_eq!(
            before, after,
            "{method} {path} was refused and has done something"
        );
    }
    (answer.status.as_u16(), answer.text)
}

#[tokio::test]
async fn every_route_takes_its_role_and_says_which() {
    assert!(Admin::routes().len() >= 28);
    for route in Admin::routes() {
        for role in ROLES {
            let shop = Shop::busy().await;
            let admin = Admin::new(shop.tasks.clone());
            let admin = admin.authorize(move |_| Some(Viewer::new("ann", role)));
            let (status, text) = knock(&shop, admin, route.method, route.path).await;
            let what = format!("{} {} as {role}: {status}", route.method, route.path);
            if role < route.role {
                assert_eq!(status, 403, "{what}");
                let needs = format!(
                    "takes the role {}; you (ann) have the role {role}",
                    route.role
                );
                assert!(text.contains(&needs), "{what}: {text}");
            } else {
                // A page without fields may be a mistake; it is not refused.
                assert!([200, 303, 400].contains(&status), "{what}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn every_change_takes_more_than_a_viewer() {
    for route in Admin::routes() {
        let is_change = route.method != "GET";
        assert!(!is_change || route.role > Role::Viewer, "{}", route.path);
    }
}

#[tokio::test]
async fn without_a_rule_and_read_only_nobody_changes_anything() {
    let shop = Shop::busy().await;
    let open = || Admin::new(shop.tasks.clone());
    let read_only = || {
        open()
            .authorize(|_| Some(Viewer::new("ann", Role::Admin)))
            .read_only()
    };
    for route in Admin::routes()
        .iter()
        .filter(|route| route.role > Role::Viewer)
    {
        let (status, _) = knock(&shop, open(), route.method, route.path).await;
        assert_eq!(status, 403, "{}", route.path);
        let (status, text) = knock(&shop, read_only(), route.method, route.path).await;
        assert!(
            status == 403 && text.contains("mounted read-only"),
            "{}",
            route.path
        );
    }
    let page = read_only().router();
    assert!(
        !get(&page, "/type?name=mail.send")
            .await
            .text
            .contains("method=\"post\"")
    );
    assert_eq!(get(&page, "/").await.status, 200);
}

#[tokio::test]
async fn nobody_sees_nothing() {
    let shop = Shop::busy().await;
    let admin = || Admin::new(shop.tasks.clone()).authorize(|_| None);
    for route in Admin::routes() {
        let (status, text) = knock(&shop, admin(), route.method, route.path).await;
        assert_eq!(status, 401, "{}", route.path);
        assert!(
            !text.contains("mail.send") && text.contains("Sign in"),
            "{text}"
        );
    }
    assert_eq!(get(&admin().router(), "/nowhere").await.status, 401);
}

#[tokio::test]
async fn a_viewer_is_shown_no_control_that_he_may_not_use() {
    let shop = Shop::busy().await;
    for role in ROLES {
        let page = shop.page(role);
        for path in crate::shop::PAGES {
            let text = get(&page, path).await.text;
            for route in Admin::routes().iter().filter(|route| route.role > role) {
                for form in ["action", "href"] {
                    let control = format!("{form}=\"{}", route.path);
                    let is_shown = text.contains(&format!("{control}\""))
                        || text.contains(&format!("{control}?"));
                    assert!(!is_shown, "{path} as {role} shows {}", route.path);
                }
            }
        }
    }
}
