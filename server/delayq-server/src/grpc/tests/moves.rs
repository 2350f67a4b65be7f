//! Moves of a namespace, over gRPC.

use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::config::Config;
use delayq_tests::rig::until;
use tonic::Code;

use super::{Site, asking};
use crate::server::Server;

fn moved(answer: tonic::Response<pb::MoveResponse>) -> pb::NamespaceMove {
    answer.into_inner().r#move.unwrap()
}

#[tokio::test]
async fn a_namespace_is_moved_shown_and_a_move_that_has_begun_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let config = Config {
        listen: ([127, 0, 0, 1], 0).into(),
        store: url("own.sqlite"),
        pools: [("fast".to_owned(), url("fast.sqlite"))].into(),
        ..Config::default()
    };
    let server = Server::open(config).await.unwrap();
    let operate = [Scope::Operate];
    let narrow = server.new_token("n", &operate, "default", &["mail"]).await;
    let token = server.new_token("ops", &operate, "default", &[]).await;
    let site = Site::of(server).await;
    let mut client = site.client();
    let to = |to: &str| pb::BeginMoveRequest {
        namespace: String::new(),
        to: to.to_owned(),
    };
    let (get, cancel) = (
        pb::GetMoveRequest::default(),
        pb::CancelMoveRequest::default(),
    );

    let nowhere = client.begin_move(asking(&token, to("slow"))).await;
    let nowhere = nowhere.unwrap_err();
    assert_eq!(nowhere.code(), Code::InvalidArgument, "{nowhere}");
    assert!(nowhere.message().contains("fast, store"), "{nowhere}");
    for refused in [
        client.get_move(asking(&narrow, get.clone())).await,
        client.begin_move(asking(&narrow, to("fast"))).await,
        client.cancel_move(asking(&narrow, cancel.clone())).await,
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    }
    let none = client.cancel_move(asking(&token, cancel.clone())).await;
    assert_eq!(none.unwrap_err().code(), Code::FailedPrecondition);

    for _ in 0..2 {
        let begun = client.begin_move(asking(&token, to("fast"))).await;
        let begun = moved(begun.unwrap());
        assert_eq!((begun.from, begun.to.as_deref()), (None, Some("fast")));
    }
    let seen = until("the server drives it", || {
        let (mut client, get) = (client.clone(), asking(&token, get.clone()));
        async move {
            let now = moved(client.get_move(get).await.unwrap());
            (now.phase() != pb::MovePhase::Preparing).then_some(now)
        }
    })
    .await;
    assert_eq!(seen.phase(), pb::MovePhase::Moving);
    assert!(seen.about.contains("new tasks go to pool fast"), "{seen:?}");
    let late = client.cancel_move(asking(&token, cancel)).await;
    assert_eq!(late.unwrap_err().code(), Code::FailedPrecondition);
    let log = pb::ActionsRequest::default();
    let log = client.actions(asking(&token, log)).await.unwrap();
    let log = log.into_inner().actions;
    let [begun] = &log[..] else {
        panic!("{log:?}");
    };
    let begun = begun.action.clone().unwrap();
    assert_eq!(
        (begun.verb.as_str(), begun.detail.as_str()),
        ("move", "to fast")
    );
    assert!(begun.actor.starts_with("ops ("), "{begun:?}");
}
