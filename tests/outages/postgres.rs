//! A PostgreSQL server that dies, hangs, is full, takes no writes or is replaced by another.

use delayq_core::store::{Durability, StoreOptions};
use delayq_core::{Error, Store};
use delayq_plugin::store::PostgresStore;
use delayq_tests::instance::log::What;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::rig::until;

use crate::{OUTAGES, Outage, outages};

#[tokio::test]
async fn a_postgres_server_killed_under_load_loses_nothing_and_stalls_no_handler() {
    let server = PostgresServer::start(&[]);
    let outage = Outage {
        rounds: OUTAGES,
        begin: PostgresServer::kill,
        end: PostgresServer::restart,
        is_noticed: What::is_refused,
    };
    outages(server.url(), server, outage).await;
}

/// A primary, and a replica that has every acknowledged write.
struct Pair {
    primary: PostgresServer,
    replica: PostgresServer,
}

impl Pair {
    fn start() -> Self {
        let primary = PostgresServer::start(&[]);
        let replica = PostgresServer::start_replica_of(&primary);
        primary.configure("synchronous_standby_names = '*'");
        Self { primary, replica }
    }

    /// Waits until the primary has the replica at its side.
    async fn is_in_step(&self) {
        let state = "SELECT sync_state FROM pg_stat_replication";
        until("the replica", async || {
            (self.primary.sql("postgres", state) == "sync").then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_write_without_its_standby_is_in_doubt_and_known_once_there_is_one() {
    let mut pair = Pair::start();
    pair.is_in_step().await;
    let options = StoreOptions {
        durability: Durability::Replicated,
        call_timeout: delayq_plugin::seconds(1),
        ..StoreOptions::default()
    };
    let store = PostgresStore::connect(&pair.primary.url(), options)
        .await
        .unwrap();
    assert_eq!(store.durability(), Durability::Replicated);
    let task = || {
        let job = delayq_plugin::DelayQueueJob::raw("order.cancel", "unpaid").id("one");
        let limits = delayq_core::job::Limits::default();
        vec![
            job.into_task(&limits, delayq_plugin::Timestamp::ZERO)
                .unwrap(),
        ]
    };
    pair.replica.stop();
    let told = store.submit(task()).await.remove(0).unwrap_err();
    assert!(matches!(told, Error::Indeterminate { .. }), "{told}");
    pair.replica.resume();
    let again = until("an answer", async || {
        store.submit(task()).await.remove(0).ok()
    })
    .await;
    let is_known = matches!(again, delayq_plugin::SubmitOutcome::AlreadyExists { .. });
    assert!(is_known, "{again:?}");
    store.close().await;
}

#[cfg(feature = "soak")]
mod at_length {
    use super::*;
    use crate::disk::{Disk, fills};

    /// The server does not die but hangs, for longer than the locks last.
    #[tokio::test]
    async fn a_postgres_server_that_hangs_under_load_loses_nothing_and_stalls_no_handler() {
        let server = PostgresServer::start(&[]);
        let outage = Outage {
            rounds: OUTAGES,
            begin: PostgresServer::stop,
            end: PostgresServer::resume,
            is_noticed: What::is_told_end,
        };
        outages(server.url(), server, outage).await;
    }

    #[tokio::test]
    async fn a_postgres_server_that_takes_no_writes_loses_nothing_and_stalls_no_handler() {
        let server = PostgresServer::start(&[]);
        let outage = Outage {
            rounds: OUTAGES,
            begin: |server: &mut PostgresServer| {
                server.configure("default_transaction_read_only = on");
            },
            end: |server: &mut PostgresServer| {
                server.configure("default_transaction_read_only = off");
            },
            is_noticed: What::is_refused,
        };
        outages(server.url(), server, outage).await;
    }

    /// The replica has what was acknowledged, and takes over.
    #[tokio::test]
    async fn a_fail_over_loses_nothing_and_stalls_no_handler() {
        let pair = Pair::start();
        pair.is_in_step().await;
        let ports = (pair.primary.port(), pair.replica.port());
        let url = format!(
            "postgres://delayq@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
            ports.0, ports.1
        );
        let outage = Outage {
            rounds: 1,
            begin: |pair: &mut Pair| pair.primary.kill(),
            end: |pair: &mut Pair| pair.replica.promote(),
            is_noticed: What::is_refused,
        };
        outages(url, pair, outage).await;
    }

    #[tokio::test]
    async fn a_full_disk_of_a_postgres_server_is_a_clear_error_and_loses_nothing() {
        let Some(disk) = Disk::mount("64m") else {
            return;
        };
        let server = PostgresServer::start(&[]);
        server.create_database_in("small", &disk.path("small"));
        fills(&disk, server.url_of("small")).await;
    }
}
