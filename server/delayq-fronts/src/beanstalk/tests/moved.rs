//! Clients of beanstalkd go on while their namespace is moved.

use std::time::Duration;

use delayq_plugin::Namespace;
use delayq_service::config::{Config, NamespaceConfig};
use delayq_service::place::{Mover, Patience, Phase};
use delayq_tests::rig::until;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::*;

/// A move does not wait.
const AT_ONCE: Patience = Patience {
    prepare: Duration::ZERO,
    retention: Duration::ZERO,
};

fn config(folder: &TempDir) -> Config {
    let url = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let shop = NamespaceConfig {
        pool: Some("a".to_owned()),
        ..NamespaceConfig::default()
    };
    Config {
        store: url("own.sqlite"),
        pools: ["a", "b"].map(|name| (name.to_owned(), url(name))).into(),
        namespaces: [("shop".to_owned(), shop)].into(),
        ..Config::default()
    }
}

/// Moves on until the namespace is in this phase.
async fn drive(mover: &Mover, phase: Phase) {
    while mover.status().await.unwrap().place.phase != phase {
        mover.advance().await.unwrap();
    }
}

struct Client(BufReader<UnixStream>);

impl Client {
    async fn ask(&mut self, command: &str) -> String {
        let stream = self.0.get_mut();
        stream.write_all(command.as_bytes()).await.unwrap();
        let mut line = String::new();
        self.line(&mut line).await;
        line.trim_end().to_owned()
    }

    async fn line(&mut self, line: &mut String) {
        let read = self.0.read_line(line);
        let read = tokio::time::timeout(Duration::from_secs(20), read).await;
        assert!(read.is_ok_and(|read| read.unwrap() > 0), "an answer comes");
    }

    async fn put(&mut self) -> String {
        self.ask("put 0 0 60 1\r\nx\r\n").await
    }

    /// Reserves a job, and deletes it unless it is kept.
    async fn reserve(&mut self, number: u64, is_kept: bool) {
        let reserved = self.ask("reserve-with-timeout 10\r\n").await;
        assert_eq!(reserved, format!("RESERVED {number} 1"));
        self.line(&mut String::new()).await;
        if !is_kept {
            self.delete(number).await;
        }
    }

    async fn delete(&mut self, number: u64) {
        assert_eq!(self.ask(&format!("delete {number}\r\n")).await, "DELETED");
    }
}

#[tokio::test]
async fn jobs_are_numbered_on_and_reserved_before_during_and_after_the_move() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder);
    config.beanstalk.namespace = "shop".to_owned();
    let socket = folder.path().join("jobs.sock");
    config.beanstalk.socket = Some(socket.clone());
    let server = Server::open(config).await.unwrap();
    let opened = Listeners::open(&server.app.config.beanstalk).await;
    let listeners = opened.unwrap().expect("it is offered");
    tokio::spawn(serve(server.app.clone(), listeners));
    let stream = until("the socket", async || {
        UnixStream::connect(&socket).await.ok()
    });
    let mut client = Client(BufReader::new(stream.await));
    for number in 1..=2 {
        assert_eq!(client.put().await, format!("INSERTED {number}"));
    }
    client.reserve(1, true).await;

    let shop = Namespace::new("shop").unwrap();
    let space = server.app.spaces.of(&shop).await.unwrap();
    let mover = Mover::patient(Arc::clone(&space.place), AT_ONCE);
    mover.begin(Some("b".to_owned())).await.unwrap();
    // While documents are copied a put waits for the end of that.
    let (put, ()) = tokio::join!(client.put(), drive(&mover, Phase::Moving));
    assert_eq!(put, "INSERTED 3");
    client.reserve(2, false).await;
    client.reserve(3, false).await;
    client.delete(1).await;
    drive(&mover, Phase::Done).await;
    assert_eq!(client.put().await, "INSERTED 4");
    client.reserve(4, true).await;
    assert_eq!(client.ask("touch 4\r\n").await, "TOUCHED");
    client.delete(4).await;
    drop(space);
    server.close().await;
}
