//! Real connections on a real port, with a server on a memory store behind them.

mod certificates;
mod encrypted;
mod hostile;
mod idle;
mod leaving;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use delayq_service::access::Scope;
use delayq_service::config::Config;
use delayq_service::stop::Stopping;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::http::router;
use crate::server::Server;

/// A server that listens.
struct Site {
    address: SocketAddr,
    stopping: Stopping,
    token: String,
    served: JoinHandle<()>,
}

fn config() -> Config {
    Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        ..Config::default()
    }
}

impl Site {
    async fn open(config: Config) -> Self {
        Self::of(Server::open(config).await.unwrap()).await
    }

    async fn of(server: Server) -> Self {
        let routes = router(server.app.clone());
        Self::serving(server, routes).await
    }

    /// A server that listens for these routes.
    async fn serving(server: Server, routes: Router) -> Self {
        let token = server.new_token("test", &Scope::ALL, "default", &[]).await;
        let listener = server.listener().await.unwrap();
        let address = listener.local_addr().unwrap();
        let door = server.door("test", routes);
        Self {
            address,
            stopping: server.app.stopping.clone(),
            token,
            served: tokio::spawn(async move {
                door.serve(listener).await;
                server.close().await;
            }),
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The answer to a request that closes its connection.
    async fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = self.connect().await;
        let head = self.head(method, path, "connection: close\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    /// The head of a request with further headers.
    fn head(&self, method: &str, path: &str, more: &str) -> String {
        let token = &self.token;
        format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n{more}\r\n"
        )
    }
}

/// What the server sends until it closes the connection, as far as it is text.
async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    // A connection that is reset has said what it had to say.
    let read = stream.read_to_end(&mut bytes);
    let _ = tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .expect("the server keeps the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The head of the next answer, and its body of the length that it states.
async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(text).unwrap();
    let length = head.split_once("content-length: ").unwrap().1;
    let length = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    head + &String::from_utf8_lossy(&body)
}

#[tokio::test]
async fn a_stop_is_announced_then_waits_end_empty_and_the_port_is_given_up() {
    let site = Site::open(config()).await;
    assert!(
        site.ask("GET", "/health/ready")
            .await
            .starts_with("HTTP/1.1 200")
    );
    let mut waiting = site.connect().await;
    let claim = site.head("POST", "/v1/default/types/mail/claim?wait=60s", "");
    waiting.write_all(claim.as_bytes()).await.unwrap();
    site.stopping.leave();
    let ready = site.ask("GET", "/health/ready").await;
    assert!(
        ready.starts_with("HTTP/1.1 503") && ready.contains("the server stops"),
        "{ready}"
    );
    assert!(
        site.ask("GET", "/health/live")
            .await
            .starts_with("HTTP/1.1 200")
    );
    site.stopping.end();
    let claimed = rest(&mut waiting).await;
    assert!(
        claimed.starts_with("HTTP/1.1 200") && claimed.contains("{\"tasks\":[]}"),
        "{claimed}"
    );
    site.served.await.unwrap();
    assert!(TcpStream::connect(site.address).await.is_err());
}

#[tokio::test]
async fn a_request_that_is_not_done_within_the_grace_is_cut() {
    let mut config = config();
    config.stop.grace_ms = 50;
    let site = Site::open(config).await;
    let mut stream = site.connect().await;
    let path = "/v1/default/types/mail/tasks";
    let head = site.head(
        "POST",
        path,
        "content-length: 10\r\nexpect: 100-continue\r\n",
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // It asks for the body: the request is under way.
    let mut asked = [0; 12];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100");
    site.stopping.end();
    site.served.await.unwrap();
    let said = rest(&mut stream).await;
    assert!(!said.contains("HTTP/1.1"), "{said}");
}

#[tokio::test]
async fn a_connection_that_makes_no_request_is_closed() {
    let mut config = config();
    config.connections.header_timeout_ms = 50;
    let site = Site::open(config).await;
    for said in [
        "",
        "PRI * HTTP/2.0\r\n",
        "GET /health/live HTTP/1.1\r\nhost: a\r\nx:",
    ] {
        let mut stream = site.connect().await;
        stream.write_all(said.as_bytes()).await.unwrap();
        let answered = rest(&mut stream).await;
        assert!(!answered.contains("200 OK"), "{said:?}: {answered}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_answered_and_one_that_is_too_large_is_not_read() {
    let mut config = config();
    config.connections.body_timeout_ms = 50;
    let site = Site::open(config).await;
    let path = "/v1/default/types/mail/tasks";
    for (length, status, kind) in [
        ("10", "HTTP/1.1 408", "too-slow"),
        ("1073741824", "HTTP/1.1 413", "limit-exceeded"),
    ] {
        let mut stream = site.connect().await;
        let head = site.head("POST", path, &format!("content-length: {length}\r\n"));
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(b"half").await.unwrap();
        let said = answer(&mut stream).await;
        assert!(said.starts_with(status) && said.contains(kind), "{said}");
    }
}

#[tokio::test]
async fn headers_are_bounded() {
    let site = Site::open(config()).await;
    let mut stream = site.connect().await;
    let long = format!("x-long: {}\r\n", "x".repeat(100_000));
    let head = site.head("GET", "/health/live", &long);
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(head.as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(
        said.is_empty() || said.starts_with("HTTP/1.1 431"),
        "{said}"
    );
    let many = "x: y\r\n".repeat(200);
    let mut stream = site.connect().await;
    let head = site.head("GET", "/health/live", &many);
    stream.write_all(head.as_bytes()).await.unwrap();
    let said = rest(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
}
