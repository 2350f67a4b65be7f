//! A peer that goes away without a word: a firewall that drops packets, a machine that lost its power.

use std::time::Duration;

use delayq_core::Error;
use delayq_core::store::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{accept, claim, impatient, job, submit};

/// Passes connections on to a server, until it is told to forget those that it has: they stay open, and
/// nothing moves on them any more.
struct Gate {
    url: String,
    passing: watch::Sender<u64>,
}

impl Gate {
    async fn to(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (passing, port) = (watch::Sender::new(0), server.port());
        let turns = passing.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, port, turns.subscribe()));
            }
        });
        Self { url, passing }
    }

    fn forget_connections(&self) {
        self.passing.send_modify(|turn| *turn += 1);
    }
}

async fn pass(mut client: TcpStream, port: u16, mut turns: watch::Receiver<u64>) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = turns.changed() => {
            // Both ends stay open, without a reader.
            std::future::pending::<()>().await;
        }
    }
}

#[tokio::test]
async fn a_connection_on_which_nothing_comes_back_is_given_up_for_a_new_one() {
    let server = RedisServer::start(Persistence::None, &[]);
    let gate = Gate::to(&server).await;
    let store = RedisStore::connect(&gate.url, impatient()).await.unwrap();
    accept(&store, job("1")).await;
    for round in 0..3 {
        gate.forget_connections();
        let lost = if round == 1 {
            claim(&store).await.unwrap_err()
        } else {
            submit(&store, job("2")).await.unwrap_err()
        };
        assert!(lost.is_indeterminate(), "{lost}");
        let answered = async {
            // One that was sent in the last moment of its time, as it waited for the connection.
            let mut unsure = 0;
            loop {
                match submit(&store, job("2").keep()).await {
                    Ok(_) => return,
                    Err(Error::Unavailable { .. }) => {}
                    Err(Error::Indeterminate { .. }) if unsure == 0 => unsure += 1,
                    Err(error) => panic!("the old connection is used again: {error}"),
                }
            }
        };
        let answered = tokio::time::timeout(Duration::from_secs(10), answered).await;
        answered.expect("a new connection is made");
    }
}
