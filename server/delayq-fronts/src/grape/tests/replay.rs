//! What Grape answers, request by request, recorded from the original.

use axum::Router;
use delayq_service::config::TokenRule;

use super::Site;
use crate::tests::exchange::Replay;

#[tokio::test]
async fn the_recorded_exchanges_are_the_same() {
    let site = Site::open(TokenRule::Optional).await;
    let replay = Replay::new(site.api.clone(), Router::new(), "grape");
    assert_eq!(replay.file("grape.jsonl").await, (71, Vec::new()));
}
