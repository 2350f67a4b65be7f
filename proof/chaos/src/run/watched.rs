//! A master, its replicas and their sentinels, as a run uses them.

use std::time::{Duration, Instant};

use delayq_plugin::seconds;
use delayq_tests::redis_server::{Environment, Persistence, RedisServer};
use delayq_tests::sentinel_set::{SentinelOptions, SentinelSet};

use super::failure::{Result, failure};
use crate::event::What;
use crate::record::Recorder;

/// How long a server is silent until a sentinel takes it for dead. Half of that, with many
/// processes beside each other on two cores, is silence enough on its own now and then.
pub(crate) const DOWN_AFTER_MS: u64 = 2_000;

/// After so long a fail-over is worth a look at.
const SLOW: Duration = seconds(8);

/// The running servers, each behind a door where it can be cut off, and who the master was last.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) set: SentinelSet,
    recorder: Recorder,
    master: usize,
}

impl Watched {
    /// Starts them. What is acknowledged has to survive without a disk.
    pub(crate) async fn start(recorder: Recorder, environments: Vec<Environment>) -> Self {
        let set = SentinelSet::start(SentinelOptions {
            environments,
            down_after_ms: DOWN_AFTER_MS,
            persistence: Persistence::None,
            doors: true,
            extra: vec!["--min-replicas-to-write".to_owned(), "1".to_owned()],
            ..SentinelOptions::default()
        });
        let set = set.await;
        let master = set.master().await;
        Self {
            set,
            recorder,
            master,
        }
    }

    /// Where a process finds them.
    pub(crate) fn url(&self) -> String {
        format!("{}?durability=replicated", self.set.url())
    }

    /// Awaits that all servers and sentinels run and are in sync; the master. Records that it is
    /// another one than last time.
    pub(crate) async fn ready(&mut self) -> usize {
        let master = self.set.in_sync().await;
        if master != self.master {
            self.recorder.record(What::FailedOver);
            self.master = master;
        }
        master
    }

    /// Awaits that sentinels agree on another master than `old`, and records when. Shows what they
    /// say when they take longer than anybody should.
    pub(crate) async fn failed_over(&mut self, old: usize) {
        let began = Instant::now();
        self.master = self.set.failed_over(old).await;
        self.recorder.record(What::FailedOver);
        let log = self.set.sentinel_logs();
        if began.elapsed() > SLOW {
            println!("sentinels took {:?}:\n{log}", began.elapsed());
        }
    }

    pub(crate) fn server(&mut self, server: usize) -> Result<&mut RedisServer> {
        match self.set.servers.get_mut(server) {
            Some(server) => Ok(server),
            None => failure(format!("there is no server {server}")),
        }
    }

    pub(crate) fn sentinel(&mut self, sentinel: usize) -> Result<&mut RedisServer> {
        match self.set.sentinels.get_mut(sentinel) {
            Some(sentinel) => Ok(sentinel),
            None => failure(format!("there is no sentinel {sentinel}")),
        }
    }
}
