//! Every method of the descriptor with every kind of token: a new method cannot be forgotten.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use delayq_core::chronicle::Action;
use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::{TaskType, Timestamp};
use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::config::{Config, NamespaceConfig};
use http_body_util::BodyExt;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};
use tonic::Code;
use tower::ServiceExt;

use super::call;
use crate::grpc::router;
use crate::server::Server;

/// A method, as its documentation describes it.
struct Method {
    name: String,
    /// The scope that the documentation names; `None`: any token.
    scope: Option<Scope>,
    /// A request with nothing in it.
    empty: Vec<u8>,
    /// A request about a type, if it is about one.
    typed: Option<Vec<u8>>,
}

/// A field of wire type 2.
fn field(number: i32, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(number).unwrap() << 3 | 2];
    bytes.push(u8::try_from(value.len()).unwrap());
    bytes.extend_from_slice(value);
    bytes
}

/// What names the type `other` in a request, and its caller where it asks for that before.
fn typed(request: &DescriptorProto) -> Option<Vec<u8>> {
    let number = |name: &str| {
        let mut fields = request.field.iter();
        fields
            .find(|one| one.name() == name)
            .map(prost_types::FieldDescriptorProto::number)
    };
    let name = field(1, b"other");
    let nested = number("bucket").or(number("tasks"));
    let plain = number("task_type").or(number("task_types"));
    let plain = plain.map(|number| field(number, b"other"));
    let mut typed = nested.map(|number| field(number, &name)).or(plain)?;
    if request.name() == "AnnounceCalleeRequest" {
        typed.extend(number("name").map(|number| field(number, b"a")).unwrap());
    }
    Some(typed)
}

fn methods() -> Vec<Method> {
    let set = FileDescriptorSet::decode(delayq_proto::DESCRIPTORS).unwrap();
    let mut files = set.file.iter();
    let file = files
        .find(|file| file.name() == "delayq/v1/delayq.proto")
        .unwrap();
    let info = file.source_code_info.as_ref().unwrap();
    let methods = file.service[0].method.iter().enumerate();
    let methods = methods.map(|(index, method)| {
        let path = [6, 0, 2, i32::try_from(index).unwrap()];
        let mut places = info.location.iter();
        let place = places.find(|place| place.path == path).unwrap();
        let text = place.leading_comments().split_whitespace();
        let text = text.collect::<Vec<_>>().join(" ");
        let scope = Scope::ALL
            .into_iter()
            .find(|scope| text.contains(&format!("Scope {scope}.")));
        assert!(
            scope.is_some() || text.contains("Any token"),
            "{}: the documentation names no scope",
            method.name()
        );
        let name = method.input_type().rsplit('.').next().unwrap();
        let request = file
            .message_type
            .iter()
            .find(|message| message.name() == name);
        let is_work = method.name() == "Work";
        Method {
            name: method.name().to_owned(),
            scope,
            // The stream of a worker is admitted by its first message.
            empty: if is_work { field(1, b"") } else { Vec::new() },
            typed: request.and_then(typed),
        }
    });
    methods.collect()
}

struct Door {
    server: Server,
    router: Router,
}

impl Door {
    async fn open() -> Self {
        let server = Server::in_memory().await;
        let router = router(server.app.clone());
        Self { server, router }
    }

    /// The status of a call; `Ok` if the stream that it answers has begun.
    async fn call(&self, method: &str, token: Option<&str>, message: &[u8]) -> Code {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [&[0], &length[..], message].concat();
        let request = Request::post(format!("/delayq.v1.Delayq/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let request = match token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        let request = request.body(Body::from(Bytes::from(body))).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        if let Some(status) = response.headers().get("grpc-status") {
            return Code::from_bytes(status.as_bytes());
        }
        if method == "Wakeups" {
            return Code::Ok;
        }
        let body = response.into_body().collect().await.unwrap();
        let trailers = body.trailers().unwrap();
        Code::from_bytes(trailers.get("grpc-status").unwrap().as_bytes())
    }
}

fn is_refused(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::PermissionDenied)
}

#[tokio::test]
async fn every_method_needs_a_valid_token() {
    let door = Door::open().await;
    let revoked = door
        .server
        .new_token("test", &[Scope::Admin], "*", &[])
        .await;
    let id = revoked.split('_').nth(1).unwrap();
    assert!(door.server.app.tokens.revoke(id).await.unwrap());
    let expired = door.server.expired_token().await;
    for method in methods() {
        let invalid = ["", "dq_1_x", &revoked, &expired].map(Some);
        for token in invalid.into_iter().chain([None]) {
            let code = door.call(&method.name, token, &method.empty).await;
            assert_eq!(code, Code::Unauthenticated, "{} {token:?}", method.name);
        }
    }
}

#[tokio::test]
async fn every_method_needs_the_scope_of_its_documentation_and_the_namespace() {
    let door = Door::open().await;
    let elsewhere = door
        .server
        .new_token("test", &[Scope::Admin], "shop", &[])
        .await;
    let mut seen = BTreeSet::new();
    for scope in Scope::ALL {
        let token = door
            .server
            .new_token("test", &[scope], "default", &[])
            .await;
        for method in methods() {
            let code = door.call(&method.name, Some(&token), &method.empty).await;
            let needed = method.scope.unwrap_or(scope);
            let may = scope == needed || scope == Scope::Admin;
            assert_eq!(!is_refused(code), may, "{} {scope} {code:?}", method.name);
            seen.extend(method.scope);
            let code = door
                .call(&method.name, Some(&elsewhere), &method.empty)
                .await;
            assert_eq!(code, Code::PermissionDenied, "{}", method.name);
        }
    }
    assert_eq!(seen.len(), Scope::ALL.len());
}

#[tokio::test]
async fn a_token_for_some_types_reaches_no_other() {
    let door = Door::open().await;
    let token = door
        .server
        .new_token("test", &[Scope::Admin], "default", &["mail.*"])
        .await;
    let all = door
        .server
        .new_token("test", &[Scope::Admin], "default", &[])
        .await;
    let typed: Vec<_> = methods()
        .into_iter()
        .filter_map(|method| Some((method.name, method.typed?)))
        .collect();
    assert!(typed.len() > 34, "{}", typed.len());
    for (method, request) in typed {
        let code = door.call(&method, Some(&token), &request).await;
        assert_eq!(code, Code::PermissionDenied, "{method}");
        let code = door.call(&method, Some(&all), &request).await;
        assert!(!is_refused(code), "{method}: {code:?}");
    }
    for about_all in [
        "Actions",
        "GetFolder",
        "FolderRevision",
        "WriteDocument",
        "RemoveDocument",
        "Overview",
        "Callees",
        "GetMove",
    ] {
        let code = door.call(about_all, Some(&token), &[]).await;
        assert_eq!(code, Code::PermissionDenied, "{about_all}");
        let code = door.call(about_all, Some(&all), &[]).await;
        assert!(!is_refused(code), "{about_all}: {code:?}");
    }
}

#[tokio::test]
async fn an_instance_is_announced_and_withdrawn_by_a_token_for_what_it_serves() {
    let door = Door::open().await;
    let mail = door
        .server
        .new_token("test", &[Scope::Work], "default", &["mail.*"])
        .await;
    let order = door
        .server
        .new_token("test", &[Scope::Work], "default", &["order.*"])
        .await;
    let types = [TaskType::new("mail.send").unwrap()];
    let id = InstanceId::generate();
    let started_at = Timestamp::from_millis(1_767_225_300_000);
    let instance = InstanceInfo::new(id.clone(), "shop-3", 17, started_at).serving(&types);
    let announce = pb::AnnounceRequest {
        namespace: "default".to_owned(),
        instance: Some(instance.into()),
        holds: Some(delayq_proto::span(Duration::from_mins(1))),
    };
    let withdraw = pb::WithdrawRequest {
        namespace: "default".to_owned(),
        id: id.to_string(),
    };
    let announced = announce.encode_to_vec();
    let code = door.call("Announce", Some(&mail), &announced).await;
    assert_eq!(code, Code::Ok);
    let withdrawn = withdraw.encode_to_vec();
    let code = door.call("Withdraw", Some(&order), &withdrawn).await;
    assert_eq!(code, Code::PermissionDenied);
    let code = door.call("Withdraw", Some(&mail), &withdrawn).await;
    assert_eq!(code, Code::Ok);
}

#[tokio::test]
async fn nobody_logs_an_action_under_another_name_but_an_admin_that_of_its_users() {
    let door = Door::open().await;
    let action = Action::new("ann", "10.0.0.7", "pause", "mail");
    let request = pb::LogActionRequest {
        namespace: "default".to_owned(),
        action: Some(action.into()),
    };
    let message = request.encode_to_vec();
    for scope in [Scope::Operate, Scope::Admin] {
        let token = door
            .server
            .new_token("test", &[scope], "default", &[])
            .await;
        let code = door.call("LogAction", Some(&token), &message).await;
        assert_eq!(code, Code::Ok);
    }
    let default = delayq_plugin::Namespace::default();
    let space = door.server.app.spaces.of(&default).await.unwrap();
    let actions = space.tasks.store().actions(None, 10).await.unwrap();
    let [admin, operator] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(admin.action.actor, "ann");
    assert!(operator.action.actor.starts_with("test ("), "{operator:?}");
    assert_ne!(operator.action.origin, "10.0.0.7");
}

#[tokio::test]
async fn the_servers_own_namespace_is_nobodys_whatever_the_configuration_says() {
    let own = delayq_service::config::OWN_NAMESPACE;
    let names = ["shop", own].map(|name| (name.to_owned(), NamespaceConfig::default()));
    // As a configuration would be that nobody has checked.
    let config = Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        namespaces: names.into(),
        ..Config::default()
    };
    let server = Server::open(config).await.unwrap();
    let app = &server.app;
    let names: Vec<_> = app.spaces.names().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["default", "shop"]);
    let routes = crate::http::router(app.clone()).merge(router(app.clone()));
    for namespace in [own, "*"] {
        let token = server
            .new_token("kim", &[Scope::Admin], namespace, &[])
            .await;
        for name in [own, "Delayq-Server"] {
            let folder = pb::GetFolderRequest {
                namespace: name.to_owned(),
                folder: "tokens".to_owned(),
            };
            let document = pb::WriteDocumentRequest {
                namespace: name.to_owned(),
                folder: "tokens".to_owned(),
                name: "mine".to_owned(),
                body: "{}".to_owned(),
                expected: Some(delayq_plugin::store::Expected::Any.into()),
            };
            for request in [
                call(&token, "GetFolder", &folder),
                call(&token, "WriteDocument", &document),
            ] {
                let answer = routes.clone().oneshot(request).await.unwrap();
                let status = tonic::Status::from_header_map(answer.headers()).unwrap();
                assert_eq!(status.code(), Code::PermissionDenied, "{status}");
            }
            let path = format!("/v1/{name}/types");
            let request = axum::http::Request::get(path);
            let request = request.header("authorization", format!("Bearer {token}"));
            let request = request.body(axum::body::Body::empty()).unwrap();
            let answer = routes.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), 403);
        }
    }
}
