use axum::http::HeaderValue;
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

/// A body that a test sends piece by piece.
fn sent() -> (mpsc::UnboundedSender<Bytes>, Body) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<Bytes>();
    let parts = futures_util::stream::poll_fn(move |context| {
        receiver
            .poll_recv(context)
            .map(|part| part.map(Ok::<_, std::convert::Infallible>))
    });
    (sender, Body::from_stream(parts))
}

fn grpc() -> HeaderMap {
    let kind = HeaderValue::from_static("application/grpc+proto");
    [(CONTENT_TYPE, kind)].into_iter().collect()
}

#[test]
fn a_call_of_grpc_is_known_by_its_path_and_its_type() {
    assert!(is_grpc_call("/delayq.v1.Delayq/Submit", &grpc()));
    assert!(!is_grpc_call("/delayq.v1.Delayq/Submit", &HeaderMap::new()));
    for path in [
        "/v1/default/types/a.b/bulk",
        "/api/a.b/queue",
        "/a.b",
        "/token/a.b",
    ] {
        assert!(!is_grpc_call(path, &grpc()), "{path}");
    }
}

#[tokio::test]
async fn all_bodies_together_have_a_bound_and_each_request_gives_back_its_own() {
    let room = BodyRoom::new(100);
    let (first, second) = (room.share(), room.share());
    let of = |share: &Arc<BodyShare>, bytes: usize| {
        share.metered(Body::from(vec![1; bytes]), false, MINUTE)
    };
    let whole = read(of(&first, 60), 1_000, MINUTE).await.unwrap();
    assert_eq!((whole.len(), room.used()), (60, 60));
    let refused = read(of(&second, 60), 1_000, MINUTE).await.unwrap_err();
    assert_eq!(refused.status(), 503, "{refused}");
    assert_eq!(room.used(), 60, "the bytes of the other one");
    // Its request has ended.
    drop(first);
    assert_eq!(
        read(of(&second, 60), 1_000, MINUTE).await.unwrap().len(),
        60
    );
    let too_large = read(of(&room.share(), 20), 10, MINUTE).await.unwrap_err();
    assert_eq!(too_large.status(), 413);
    drop(second);
    assert_eq!(room.used(), 0);
}

#[tokio::test]
async fn a_stream_of_calls_holds_one_message_and_is_refused_in_the_words_of_grpc() {
    let room = BodyRoom::new(100);
    let share = room.share();
    let (sender, body) = sent();
    let mut body = share.metered(body, true, MINUTE);
    let message = |bytes: u8| {
        let prefix = [0, 0, 0, 0, bytes];
        Bytes::from([&prefix[..], &vec![1; usize::from(bytes)]].concat())
    };
    for _ in 0..100 {
        sender.send(message(80)).unwrap();
        body.frame().await.unwrap().unwrap();
        assert_eq!(room.used(), 85);
    }
    sender.send(message(200)).unwrap();
    let refused = body.frame().await.unwrap().unwrap_err();
    let refused = Status::from_error(Box::new(refused));
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");
    drop((share, body));
    assert_eq!(room.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_given_up_and_a_stream_that_waits_between_messages_is_not() {
    let room = BodyRoom::new(100);
    let (plain, body) = sent();
    let mut body = room.share().metered(body, false, MINUTE);
    plain.send(Bytes::from_static(b"a")).unwrap();
    body.frame().await.unwrap().unwrap();
    let stalled = body.frame().await.unwrap().unwrap_err();
    assert_eq!(problem_of(&stalled).unwrap().status(), 408);
    let (stream, body) = sent();
    let mut body = room.share().metered(body, true, MINUTE);
    stream
        .send(Bytes::from_static(&[0, 0, 0, 0, 1, 7]))
        .unwrap();
    body.frame().await.unwrap().unwrap();
    let waits = tokio::time::timeout(60 * MINUTE, body.frame()).await;
    assert!(waits.is_err(), "it is not within a message");
    // The rest of this one does not come, although something comes all the time.
    let trickle = async {
        for byte in [0, 0, 0, 0, 90].into_iter().chain([1; 80]) {
            stream.send(Bytes::from(vec![byte])).unwrap();
            tokio::time::sleep(MINUTE / 10).await;
        }
    };
    let ended = async { while body.frame().await.unwrap().is_ok() {} };
    tokio::select! {
        () = ended => {}
        () = trickle => panic!("the message took longer than it may"),
    }
}
