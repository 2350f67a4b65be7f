//! Connections that nobody uses, and slow ones.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{Site, answer, config, rest};
use crate::server::Server;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let head = [0, 0, length, kind, flags, 0, 0, 0, stream];
    [&head, payload].concat()
}

/// A text of HPACK that is not compressed.
fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 127, "it is in one byte");
    [&[length], text.as_bytes()].concat()
}

/// The headers of a request; the numbers are those of the static table of HPACK.
fn headers(method: u8, path: &str, more: &[u8], flags: u8) -> Vec<u8> {
    let scheme = 0x86;
    let payload = [
        &[method, scheme, 0x04],
        &*text(path),
        &[0x01],
        &text("a"),
        more,
    ]
    .concat();
    frame(1, END_HEADERS | flags, 1, &payload)
}

const GET: u8 = 0x82;
const POST: u8 = 0x83;

impl Site {
    /// A connection of HTTP/2 with its first request.
    async fn h2(&self, request: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        let settings = frame(4, 0, 0, b"");
        let begin = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*settings, request].concat();
        stream.write_all(&begin).await.unwrap();
        stream
    }

    fn authorization(&self) -> Vec<u8> {
        [&[0x0f, 0x08], &*text(&format!("Bearer {}", self.token))].concat()
    }
}

/// Reads frames until there is one of this kind on the first stream; returns its payload.
async fn next(stream: &mut TcpStream, kind: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).await.unwrap();
        if head[3] == kind && head[8] == 1 {
            return payload;
        }
    }
}

const HEADERS: u8 = 1;
const DATA: u8 = 0;

#[tokio::test]
async fn a_connection_of_http_2_that_is_idle_is_closed_and_one_that_waits_is_not() {
    let mut config = config();
    config.connections.header_timeout_ms = 50;
    let site = Site::open(config).await;
    let claim = "/v1/default/types/mail/claim?wait=60s";
    let claim = headers(POST, claim, &site.authorization(), END_STREAM);
    let mut waiting = site.h2(&claim).await;
    let mut idle = site
        .h2(&headers(GET, "/health/live", &[], END_STREAM))
        .await;
    next(&mut idle, HEADERS).await;
    // It ends, although the client answers nothing. The other one has been as long without a word.
    rest(&mut idle).await;
    let task = site.ask("PUT", "/v1/default/types/mail/tasks/a").await;
    assert!(task.starts_with("HTTP/1.1 201"), "{task}");
    next(&mut waiting, HEADERS).await;
    let claimed = String::from_utf8(next(&mut waiting, DATA).await).unwrap();
    assert!(claimed.contains("\"id\":\"a\""), "{claimed}");
    rest(&mut waiting).await;
}

#[tokio::test]
async fn a_call_whose_message_never_comes_holds_no_connection() {
    let mut config = config();
    config.connections.header_timeout_ms = 50;
    config.connections.body_timeout_ms = 50;
    let server = Server::open(config).await.unwrap();
    let grpc = crate::grpc::router(server.app.clone());
    let site = Site::serving(server, grpc).await;
    // Literal names, as the table has none of them: `content-type` has number 31.
    let kind = [&[0x0f, 0x10], &*text("application/grpc")].concat();
    let more = [kind, site.authorization()].concat();
    for method in ["Find", "Work"] {
        let path = format!("/delayq.v1.Delayq/{method}");
        let call = headers(POST, &path, &more, 0);
        let mut stream = site.h2(&call).await;
        next(&mut stream, HEADERS).await;
        rest(&mut stream).await;
    }
}

#[tokio::test]
async fn bodies_that_are_held_open_refuse_the_next_one_in_words_and_not_for_ever() {
    let mut config = config();
    config.max_message_bytes = 1 << 20;
    config.connections.max_body_bytes = 1_500_000;
    let server = Server::open(config).await.unwrap();
    let room = server.app.bodies.clone();
    let site = Site::of(server).await;
    let path = "/v1/default/types/mail/tasks";
    let head = site.head("POST", path, "content-length: 1000000\r\n");
    let body = vec![b'x'; 1_000_000];
    let mut open = site.connect().await;
    open.write_all(head.as_bytes()).await.unwrap();
    open.write_all(&body[1..]).await.unwrap();
    let is_full = || async { (room.used() == 999_999).then_some(()) };
    delayq_tests::rig::until("the first body is here", is_full).await;
    let mut next = site.connect().await;
    next.write_all(head.as_bytes()).await.unwrap();
    // The server may close the connection before it has read everything.
    let _ = next.write_all(&body).await;
    let refused = answer(&mut next).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    assert!(refused.contains("\"is_repeatable\":true"), "{refused}");
    open.write_all(b"x").await.unwrap();
    let made = answer(&mut open).await;
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let mut again = site.connect().await;
    again.write_all(head.as_bytes()).await.unwrap();
    again.write_all(&body).await.unwrap();
    let made = answer(&mut again).await;
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    assert_eq!(room.used(), 0);
}

#[tokio::test]
async fn a_client_that_reads_a_large_answer_slowly_gets_all_of_it() {
    const LARGE: usize = 8 << 20;
    let mut config = config();
    config.connections.header_timeout_ms = 50;
    let server = Server::open(config).await.unwrap();
    let routes = Router::new().route("/large", get(async || vec![b'x'; LARGE]));
    let site = Site::serving(server, routes).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(1 << 14).unwrap();
    let mut stream = socket.connect(site.address).await.unwrap();
    let head = site.head("GET", "/large", "connection: close\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut part, mut total) = (vec![0; 1 << 17], 0);
    loop {
        let read = stream.read(&mut part).await.unwrap_or(0);
        if read == 0 {
            break;
        }
        total += read;
        // The pace of the client: 8 MiB take longer than many time-outs.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(total > LARGE, "{total} bytes came");
}
