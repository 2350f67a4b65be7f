//! Clients that speak another protocol, and those that hold jobs open.

use std::time::Duration;

use delayq_plugin::Namespace;
use delayq_plugin::store::MemoryStore;
use delayq_service::config::Config;

use super::{Client, start, start_in};
use crate::tests::server::Server;

const LONG: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_begins_with_http_is_closed_and_nothing_of_it_is_done() {
    let address = start().await;
    let put = "put 0 0 9 1\r\nx\r\n";
    for begin in [
        "GET / HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 16\r\n\r\n",
        "PUT /x HTTP/1.1\r\n",
        "OPTIONS * HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &format!("GET /{} HTTP/1.1\r\n", "x".repeat(4_000)),
    ] {
        let mut client = Client::connect(address).await;
        client.send(&format!("{begin}{put}")).await;
        assert_eq!(client.read(LONG).await, "<closed>", "{begin}");
    }
    // In two pieces, too.
    let mut client = Client::connect(address).await;
    client.send("PO").await;
    client.send(&format!("ST / HTTP/1.1\r\n{put}")).await;
    assert_eq!(client.read(LONG).await, "<closed>");
    let mut client = Client::connect(address).await;
    client.expect("peek-ready", "NOT_FOUND").await;
    client.expect("put 0 0 9 1\r\nx", "INSERTED 1").await;
    // Later it is a command that nobody knows, as of the original.
    client.expect("GET / HTTP/1.1", "UNKNOWN_COMMAND").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_which_there_is_no_room_is_refused_until_there_is() {
    let mut config = Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        ..Config::default()
    };
    config.connections.max_body_bytes = 60_000;
    let server = Server::open(config).await.unwrap();
    let room = server.app.bodies.clone();
    let store = std::sync::Arc::new(MemoryStore::default());
    server.app.spaces.offer(Namespace::default(), store).await;
    let address = start_in(server).await;
    let body = "x".repeat(50_000);
    let mut holding = Client::connect(address).await;
    holding
        .send(&format!("put 0 0 9 50000\r\n{}", &body[1..]))
        .await;
    let held = || async { (room.used() == 49_999).then_some(()) };
    delayq_tests::rig::until("the first body is here", held).await;
    let mut next = Client::connect(address).await;
    let put = format!("put 0 0 9 50000\r\n{body}");
    next.expect(&put, "OUT_OF_MEMORY").await;
    next.expect("peek-ready", "NOT_FOUND").await;
    holding.expect("x", "INSERTED 1").await;
    next.expect(&put, "INSERTED 2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_does_not_come_is_not_waited_for() {
    let mut config = Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        ..Config::default()
    };
    config.connections.body_timeout_ms = 50;
    let address = start_in(Server::open(config).await.unwrap()).await;
    let mut idle = Client::connect(address).await;
    let mut client = Client::connect(address).await;
    client.send("put 0 0 9 10\r\nxxx").await;
    assert_eq!(client.read(LONG).await, "<closed>");
    // A connection without half a job is kept, as long as it likes.
    idle.expect("peek-ready", "NOT_FOUND").await;
}
