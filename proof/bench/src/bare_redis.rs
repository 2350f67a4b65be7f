//! The least that any delayed queue does on Redis, pipelined: the ceiling that delayq is compared
//! with.

use std::time::{Duration, Instant};

use delayq_plugin::{Clock, SystemClock};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Cmd, IntoConnectionInfo, Pipeline};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Failure;
use crate::latency::Latency;
use crate::load::{BULK, IN_FLIGHT, Ids, Message, STEP, parts};

const SUBMIT: &str = include_str!("lua/submit.lua");
const CLAIM: &str = include_str!("lua/claim.lua");
const SETTLE: &str = include_str!("lua/settle.lua");

const RECORDS: &str = "bare:{bench}:records";
const DUE: &str = "bare:{bench}:due";
const LOCKS: &str = "bare:{bench}:locks";
/// How long a bare lock lasts and how far a bare task is from due: an hour.
const HOUR_MS: i64 = 3_600_000;

/// How long a server gets to free the buffers of a load, and what runs beside it to settle.
pub(crate) const SETTLED: Duration = Duration::from_secs(3);

/// A connection with the scripts loaded.
#[derive(Clone)]
pub(crate) struct BareRedis {
    connection: MultiplexedConnection,
    submit: String,
    claim: String,
    settle: String,
}

impl BareRedis {
    pub(crate) async fn connect(url: &str) -> Result<Self, Failure> {
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = url.into_connection_info()?.set_tcp_settings(tcp);
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let client = redis::Client::open(info)?;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let mut hashes = Vec::new();
        for script in [SUBMIT, CLAIM, SETTLE] {
            let mut load = redis::cmd("SCRIPT");
            let hash: String = load
                .arg("LOAD")
                .arg(script)
                .query_async(&mut connection)
                .await?;
            hashes.push(hash);
        }
        let [submit, claim, settle] = <[String; 3]>::try_from(hashes).unwrap_or_default();
        Ok(Self {
            connection,
            submit,
            claim,
            settle,
        })
    }

    /// Removes all data of the server, in memory and in its file.
    pub(crate) async fn wipe(&mut self) -> Result<(), Failure> {
        for (command, argument) in [("FLUSHALL", Some("SYNC")), ("BGREWRITEAOF", None)] {
            let mut call = redis::cmd(command);
            call.arg(argument);
            call.query_async::<()>(&mut self.connection).await?;
        }
        for field in ["aof_rewrite_scheduled", "aof_rewrite_in_progress"] {
            while self.info("persistence", field).await? != "0" {
                sleep(Duration::from_millis(10)).await;
            }
        }
        Ok(())
    }

    /// One line of `INFO section`.
    pub(crate) async fn info(&mut self, section: &str, field: &str) -> Result<String, Failure> {
        let mut info = redis::cmd("INFO");
        let text: String = info.arg(section).query_async(&mut self.connection).await?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let mut values = lines.filter_map(|(name, value)| (name == field).then_some(value));
        values
            .next()
            .map(str::to_owned)
            .ok_or_else(|| format!("no {field} in INFO").into())
    }

    /// Tasks a second, in pipelines of as many tasks as one `send_all`.
    pub(crate) async fn submit_in_bulk(&mut self, count: usize) -> Result<f64, Failure> {
        self.wipe().await?;
        let started = Instant::now();
        self.submit_all(count, HOUR_MS, Ids::Generated).await?;
        Ok(rate(count, started))
    }

    pub(crate) async fn submit_all(
        &mut self,
        count: usize,
        delay_ms: i64,
        ids: Ids,
    ) -> Result<(), Failure> {
        for bulk in parts(count, BULK) {
            let mut pipeline = Pipeline::new();
            let numbers: Vec<_> = bulk.collect();
            for step in numbers.chunks(STEP) {
                pipeline
                    .add_command(self.submit_call(step, delay_ms, ids)?)
                    .ignore();
            }
            pipeline.query_async::<()>(&mut self.connection).await?;
        }
        Ok(())
    }

    /// Bytes of memory a task.
    pub(crate) async fn memory(&mut self, count: usize, ids: Ids) -> Result<f64, Failure> {
        self.wipe().await?;
        sleep(SETTLED).await;
        let before = self.used_memory().await?;
        self.submit_all(count, HOUR_MS, ids).await?;
        sleep(SETTLED).await;
        Ok(bytes_each(self.used_memory().await?, before, count))
    }

    /// Bytes that the server has allocated.
    pub(crate) async fn used_memory(&mut self) -> Result<u64, Failure> {
        Ok(self.info("memory", "used_memory").await?.parse()?)
    }

    /// Tasks a second, each in a call of its own, with many callers on one connection.
    pub(crate) async fn submit_singly(&mut self, count: usize) -> Result<f64, Failure> {
        self.wipe().await?;
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for numbers in parts(count, count.div_ceil(IN_FLIGHT)) {
            let mut caller = self.clone();
            callers.spawn(async move {
                for number in numbers {
                    let call = caller.submit_call(&[number], HOUR_MS, Ids::Generated)?;
                    call.query_async::<()>(&mut caller.connection).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended??;
        }
        Ok(rate(count, started))
    }

    /// Microseconds that one task in a call of its own takes at the median, one after the other.
    /// With `apart` the calls are handed to that runtime, as those of delayq are.
    pub(crate) async fn submit_latency(
        &mut self,
        count: usize,
        apart: Option<Handle>,
    ) -> Result<f64, Failure> {
        self.wipe().await?;
        let caller = self.clone();
        let calls = tokio::spawn(async move {
            let mut latency = Latency::new()?;
            for number in 0..count {
                let call = caller.submit_call(&[number], HOUR_MS, Ids::Generated)?;
                let mut connection = caller.connection.clone();
                let started = Instant::now();
                let call = async move { call.query_async::<()>(&mut connection).await };
                match &apart {
                    Some(apart) => apart.spawn(call).await??,
                    None => call.await?,
                }
                latency.record(started);
            }
            Ok::<_, Failure>(latency.median_us())
        });
        calls.await?
    }

    /// Tasks a second, claimed and settled.
    pub(crate) async fn drain(&mut self, count: usize) -> Result<f64, Failure> {
        self.wipe().await?;
        self.submit_all(count, 0, Ids::Generated).await?;
        let started = Instant::now();
        all_run(self.run_all().await?, count)?;
        Ok(rate(count, started))
    }

    /// Microseconds of the server's main thread for a task that is submitted in bulk, claimed,
    /// settled.
    pub(crate) async fn life_cpu(&mut self, count: usize) -> Result<f64, Failure> {
        self.wipe().await?;
        let before = self.cpu_time().await?;
        self.submit_all(count, 0, Ids::Generated).await?;
        all_run(self.run_all().await?, count)?;
        Ok(cpu_us_each(before, self.cpu_time().await?, count))
    }

    /// How long the server's main thread has run, which is the one that runs the commands.
    pub(crate) async fn cpu_time(&mut self) -> Result<Duration, Failure> {
        let mut time = Duration::ZERO;
        for field in ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"] {
            time += Duration::from_secs_f64(self.info("cpu", field).await?.parse()?);
        }
        Ok(time)
    }

    /// Claims and settles until nothing is due; returns how many it has settled.
    pub(crate) async fn run_all(&mut self) -> Result<usize, Failure> {
        let (mut done, mut held) = (0, Vec::new());
        loop {
            let mut pipeline = Pipeline::new();
            if !held.is_empty() {
                pipeline.add_command(self.settle_call(&held)).ignore();
            }
            pipeline.add_command(self.claim_call());
            let replies = pipeline.query_async(&mut self.connection).await?;
            let [(ids, messages)]: [(Vec<String>, Vec<Vec<u8>>); 1] = replies;
            done += held.len();
            if ids.len() != messages.len() {
                return Err("the bare claim lost messages".into());
            }
            if ids.is_empty() {
                return Ok(done);
            }
            held = ids;
        }
    }

    fn submit_call(&self, numbers: &[usize], delay_ms: i64, ids: Ids) -> Result<Cmd, Failure> {
        let due = SystemClock.now().as_millis() + delay_ms;
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.submit).arg(2).arg(RECORDS).arg(DUE);
        for number in numbers {
            let id = ids.id(*number)?;
            call.arg(id.as_str())
                .arg(due)
                .arg(serde_json::to_vec(&Message::new(*number))?);
        }
        Ok(call)
    }

    fn claim_call(&self) -> Cmd {
        let now = SystemClock.now().as_millis();
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.claim)
            .arg(3)
            .arg(RECORDS)
            .arg(DUE)
            .arg(LOCKS);
        call.arg(now).arg(STEP).arg(now + HOUR_MS);
        call
    }

    fn settle_call(&self, ids: &[String]) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.settle)
            .arg(2)
            .arg(RECORDS)
            .arg(LOCKS)
            .arg(ids);
        call
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn bytes_each(after: u64, before: u64, count: usize) -> f64 {
    after.saturating_sub(before) as f64 / count as f64
}

/// Refuses a run of fewer tasks than were sent.
pub(crate) fn all_run(done: usize, count: usize) -> Result<(), Failure> {
    if done != count {
        return Err(format!("the bare claim lost tasks: {done} of {count} done").into());
    }
    Ok(())
}

/// Microseconds of a processor for each of `count` tasks, between two readings.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn cpu_us_each(before: Duration, after: Duration, count: usize) -> f64 {
    after.saturating_sub(before).as_secs_f64() * 1e6 / count as f64
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn rate(count: usize, started: Instant) -> f64 {
    count as f64 / started.elapsed().as_secs_f64()
}
