//! Moves of a namespace, over gRPC.

use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::config::Config;
use tonic::Code;

use super::{Site, asking};
use crate::server::Server;

fn moved(answer: tonic::Response<pb::MoveResponse>) -> pb::NamespaceMove {
    answer.into_inner().r#move.unwrap()
}

#[tokio::test]
async fn a_move_is_begun_and_shown_to_a_token_for_all_types() {
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
    let get = pb::GetMoveRequest::default;
    let cancel = pb::CancelMoveRequest::default;
    let nowhere = client.begin_move(asking(&token, to("slow"))).await;
    let nowhere = nowhere.unwrap_err();
    assert_eq!(nowhere.code(), Code::InvalidArgument, "{nowhere}");
    assert!(nowhere.message().contains("fast, store"), "{nowhere}");
    for refused in [
        client.get_move(asking(&narrow, get())).await,
        client.begin_move(asking(&narrow, to("fast"))).await,
        client.cancel_move(asking(&narrow, cancel())).await,
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    }
    let none = client.cancel_move(asking(&token, cancel())).await;
    assert_eq!(none.unwrap_err().code(), Code::FailedPrecondition);

    let begun = client.begin_move(asking(&token, to("fast"))).await;
    let begun = moved(begun.unwrap());
    assert_eq!((begun.from, begun.to.as_deref()), (None, Some("fast")));
    let shown = moved(client.get_move(asking(&token, get())).await.unwrap());
    assert_ne!(shown.phase(), pb::MovePhase::Done, "{shown:?}");
    assert!(shown.about.contains("pool fast"), "{shown:?}");
}
