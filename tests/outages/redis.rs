//! A Redis server that dies, hangs or drops its listeners.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use delayq_plugin::{Clock, SystemClock, hours, millis, seconds};
use delayq_tests::instance::log::What;
use delayq_tests::instance::plan::{Chore, Plan};
use delayq_tests::instance::scene::Scene;
use delayq_tests::instance::send_signal;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;

use crate::{INSTANCE, OUTAGES, Outage, outages};

#[tokio::test]
async fn a_redis_server_killed_under_load_loses_nothing_and_stalls_no_handler() {
    let server = RedisServer::start(Persistence::Always, &[]);
    let outage = Outage {
        rounds: OUTAGES,
        begin: RedisServer::kill,
        end: RedisServer::restart,
        is_noticed: What::is_refused,
    };
    outages(server.url(), server, outage).await;
}

/// The server does not die but hangs, for longer than the locks last.
#[tokio::test]
async fn a_redis_server_that_hangs_under_load_loses_nothing_and_stalls_no_handler() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let outage = Outage {
        rounds: OUTAGES,
        begin: |server: &mut RedisServer| send_signal(server.pid().unwrap(), "STOP"),
        end: |server: &mut RedisServer| send_signal(server.pid().unwrap(), "CONT"),
        is_noticed: What::is_told_end,
    };
    outages(server.url(), server, outage).await;
}

fn ask(server: &RedisServer, command: &[&str]) -> redis::Value {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let cmd = redis::cmd(command[0]).arg(&command[1..]).to_owned();
    cmd.query(&mut connection).unwrap()
}

/// Awaits that so many connections listen to wake-ups.
async fn listeners(server: &RedisServer, expected: usize) {
    until(&format!("{expected} subscriptions"), || {
        let clients = ask(server, &["CLIENT", "LIST", "TYPE", "pubsub"]);
        let clients: String = redis::from_redis_value(clients).unwrap();
        let found = clients
            .lines()
            .filter(|client| client.contains(" sub=1 "))
            .count();
        std::future::ready((found == expected).then_some(()))
    })
    .await;
}

/// Kills every subscription again and again, until the sender is dropped.
fn kill_subscriptions(url: &str) -> Sender<()> {
    let (stop, stopped) = channel();
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_connection().unwrap();
    std::thread::spawn(move || {
        while stopped.recv_timeout(millis(1)) == Err(RecvTimeoutError::Timeout) {
            let mut kill = redis::cmd("CLIENT");
            kill.arg(&["KILL", "TYPE", "pubsub"]);
            kill.exec(&mut connection).unwrap();
        }
    });
    stop
}

/// A poll of three seconds shows what a wake-up is worth, and what its loss costs.
#[tokio::test]
async fn a_lost_wake_up_costs_at_most_a_poll_and_later_ones_work_again() {
    const POLL: Duration = seconds(3);
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let mut scene = Scene::on(INSTANCE, server.url());
    let service = scene.service().await;
    let plan = Plan {
        poll_ms: 3_000,
        ..scene.plan(["job"])
    };
    let mut instance = scene.start(&plan).await;
    // The instance, and this process.
    listeners(&server, 2).await;
    Chore::Work(0).send(&service, "far", hours(1)).await;
    let mut started = 0;
    for (round, limit) in [
        ("before", seconds(1)),
        ("lost", POLL + seconds(1)),
        ("after", seconds(1)),
    ] {
        let mut storm = None;
        for n in 0..5 {
            if round == "lost" {
                storm.get_or_insert_with(|| kill_subscriptions(&server.url()));
                listeners(&server, 0).await;
            }
            let sent = SystemClock.now();
            Chore::Work(0)
                .send(&service, &format!("{round}-{n}"), Duration::ZERO)
                .await;
            started += 1;
            let start = instance.started(started).await;
            let wait = scene.between(sent.as_millis(), start.at);
            println!("{round}: started after {wait:?}");
            assert!(wait <= limit, "{round}: {wait:?}");
        }
        drop(storm);
        listeners(&server, 2).await;
    }
}
