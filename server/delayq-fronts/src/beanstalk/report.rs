//! Statistics, as YAML.

use std::collections::HashSet;
use std::fmt::{Display, Write};
use std::iter::Sum;

use delayq_plugin::{Result, TaskState, TypeStats};
use futures_util::future::try_join_all;

use super::VERSION;
use super::hub::Hub;
use super::job::{Job, PUT_AT, Past};
use super::jobs;
use super::tube::{Lane, TubeName};

/// Jobs with a priority below this are urgent.
const URGENT: u32 = 1_024;

/// A YAML dictionary.
#[derive(Debug)]
struct Yaml(String);

impl Yaml {
    fn new() -> Self {
        Self("---\n".to_owned())
    }

    fn entry(mut self, name: &str, value: impl Display) -> Self {
        let _ = writeln!(self.0, "{name}: {value}");
        self
    }

    fn text(self, name: &str, value: impl Display) -> Self {
        self.entry(name, format_args!("\"{value}\""))
    }
}

/// A list of tubes.
pub(super) fn list(tubes: &[TubeName]) -> String {
    let lines = tubes.iter().map(|tube| format!("- {tube}\n"));
    format!("---\n{}", lines.collect::<String>())
}

/// The statistics of a job.
pub(super) fn job(hub: &Hub, job: &Job) -> String {
    let info = &job.info;
    let now = Hub::now();
    let mut past = Past::of(job.lane.pri, &info.headers, &info.history);
    let held = hub.state().held.get(&job.number).cloned();
    past.kicks += hub.state().kicks.get(&job.number).copied().unwrap_or(0);
    if info.state == TaskState::Running {
        past = held
            .as_ref()
            .map_or_else(|| past.reserved(), |held| held.past.clone());
    }
    let state = match info.state {
        _ if job.is_reserved() => "reserved",
        TaskState::Dead => "buried",
        _ if job.is_delayed() => "delayed",
        _ => "ready",
    };
    let left = match info.state {
        TaskState::Running => held.map_or(0, |held| {
            let left = held.deadline.duration_since(tokio::time::Instant::now());
            left.as_secs()
        }),
        TaskState::Dead => 0,
        _ => info.at.since(now).as_secs(),
    };
    let put_at = info.headers.get(PUT_AT).and_then(|text| text.parse().ok());
    let put_at = put_at.map(delayq_plugin::Timestamp::from_millis);
    let age = now.since(put_at.or(info.submitted_at).unwrap_or(now));
    Yaml::new()
        .entry("id", job.number)
        .text("tube", &job.tube)
        .entry("state", state)
        .entry("pri", past.pri)
        .entry("age", age.as_secs())
        .entry("delay", past.delay)
        .entry("ttr", past.ttr)
        .entry("time-left", left)
        .entry("file", 0)
        .entry("reserves", past.reserves)
        .entry("timeouts", past.timeouts)
        .entry("releases", past.releases)
        .entry("buries", past.buries)
        .entry("kicks", past.kicks)
        .0
}

/// Counts of jobs.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    urgent: u64,
    ready: u64,
    reserved: u64,
    delayed: u64,
    buried: u64,
}

impl Counts {
    fn add(&mut self, pri: u32, stats: &TypeStats) {
        if pri < URGENT {
            self.urgent += stats.due;
        }
        self.ready += stats.due;
        self.reserved += stats.running;
        self.delayed += stats.scheduled.saturating_sub(stats.due);
        self.buried += stats.dead;
    }

    fn is_empty(self) -> bool {
        self.ready + self.reserved + self.delayed + self.buried == 0
    }

    fn write(self, yaml: Yaml) -> Yaml {
        yaml.entry("current-jobs-urgent", self.urgent)
            .entry("current-jobs-ready", self.ready)
            .entry("current-jobs-reserved", self.reserved)
            .entry("current-jobs-delayed", self.delayed)
            .entry("current-jobs-buried", self.buried)
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            urgent: sum.urgent + one.urgent,
            ready: sum.ready + one.ready,
            reserved: sum.reserved + one.reserved,
            delayed: sum.delayed + one.delayed,
            buried: sum.buried + one.buried,
        })
    }
}

/// The counts of a tube.
async fn counts(hub: &Hub, tube: &TubeName) -> Result<Counts> {
    let lanes = hub.lanes(tube);
    let stats = lanes.iter().map(|lane| stats(hub, tube, lane));
    let mut counts = Counts::default();
    for (lane, stats) in lanes.iter().zip(try_join_all(stats).await?) {
        counts.add(lane.pri, &stats);
    }
    Ok(counts)
}

/// The counts of a lane. A job that moves to another lane is dead for the store. It counts as
/// reserved, until its client has the answer to its release.
async fn stats(hub: &Hub, tube: &TubeName, lane: &Lane) -> Result<TypeStats> {
    let stats = hub.store.stats(&lane.task_type).await?;
    if stats.dead == 0 {
        return Ok(stats);
    }
    // Listed before and after, because a move may begin or end meanwhile.
    let mut moving = jobs::moving(hub, tube, lane).await?;
    let mut stats = hub.store.stats(&lane.task_type).await?;
    moving.extend(jobs::moving(hub, tube, lane).await?);
    let moving = (moving.len() as u64).min(stats.dead);
    stats.dead -= moving;
    stats.running += moving;
    Ok(stats)
}

/// Returns true if a tube exists: a client refers to it, or it has a job.
pub(super) async fn is_there(hub: &Hub, tube: &TubeName) -> Result<bool> {
    let is_referred = hub
        .state()
        .tubes
        .get(tube)
        .is_some_and(super::tube::Tube::is_referred);
    if is_referred || *tube == TubeName::first() {
        return Ok(true);
    }
    hub.refresh().await?;
    Ok(!counts(hub, tube).await?.is_empty())
}

/// The statistics of a tube; `None` if it does not exist.
pub(super) async fn tube(hub: &Hub, name: &TubeName) -> Result<Option<String>> {
    if !is_there(hub, name).await? {
        return Ok(None);
    }
    hub.refresh().await?;
    let counts = counts(hub, name).await?;
    let mut state = hub.state();
    let tube = state.tube(name);
    let pause = tube.pause();
    let left = pause.map_or(0, |pause| {
        let left = pause.until.duration_since(tokio::time::Instant::now());
        left.as_secs()
    });
    let yaml = counts.write(Yaml::new().text("name", name));
    let yaml = yaml
        .entry("total-jobs", tube.jobs)
        .entry("current-using", tube.using)
        .entry("current-watching", tube.watching)
        .entry("current-waiting", tube.waiting)
        .entry("cmd-delete", tube.deletes)
        .entry("cmd-pause-tube", tube.pauses)
        .entry("pause", pause.map_or(0, |pause| pause.length.as_secs()))
        .entry("pause-time-left", left);
    Ok(Some(yaml.0))
}

/// The existing tubes, in the order of beanstalkd.
pub(super) async fn tubes(hub: &Hub) -> Result<Vec<TubeName>> {
    hub.refresh().await?;
    let known: Vec<TubeName> = hub.state().tubes.keys().cloned().collect();
    let mut gone = HashSet::new();
    for name in known {
        if name != TubeName::first() && !is_here(hub, &name).await? {
            gone.insert(name);
        }
    }
    Ok(hub.state().list(&gone))
}

async fn is_here(hub: &Hub, name: &TubeName) -> Result<bool> {
    let is_referred = hub
        .state()
        .tubes
        .get(name)
        .is_some_and(super::tube::Tube::is_referred);
    Ok(is_referred || !counts(hub, name).await?.is_empty())
}

/// The statistics of the server.
pub(super) async fn server(hub: &Hub) -> Result<String> {
    let tubes = tubes(hub).await?;
    let each = tubes.iter().map(|tube| counts(hub, tube));
    let counts = try_join_all(each).await?.into_iter().sum::<Counts>();
    let count = &hub.counters;
    let yaml = counts.write(Yaml::new());
    let commands = [
        ("cmd-put", &count.put),
        ("cmd-peek", &count.peek),
        ("cmd-peek-ready", &count.peek_ready),
        ("cmd-peek-delayed", &count.peek_delayed),
        ("cmd-peek-buried", &count.peek_buried),
        ("cmd-reserve", &count.reserve),
        ("cmd-reserve-with-timeout", &count.reserve_with_timeout),
        ("cmd-delete", &count.delete),
        ("cmd-release", &count.release),
        ("cmd-use", &count.use_tube),
        ("cmd-watch", &count.watch),
        ("cmd-ignore", &count.ignore),
        ("cmd-bury", &count.bury),
        ("cmd-kick", &count.kick),
        ("cmd-touch", &count.touch),
        ("cmd-stats", &count.stats),
        ("cmd-stats-job", &count.stats_job),
        ("cmd-stats-tube", &count.stats_tube),
        ("cmd-list-tubes", &count.list_tubes),
        ("cmd-list-tube-used", &count.list_tube_used),
        ("cmd-list-tubes-watched", &count.list_tubes_watched),
        ("cmd-pause-tube", &count.pause_tube),
        ("job-timeouts", &count.timeouts),
        ("total-jobs", &count.jobs),
    ];
    let yaml = commands.into_iter().fold(yaml, |yaml, (name, counter)| {
        yaml.entry(name, counter.get())
    });
    let yaml = yaml
        .entry("max-job-size", hub.config.max_job_bytes)
        .entry("current-tubes", tubes.len());
    let connections = [
        ("current-connections", &count.connections),
        ("current-producers", &count.producers),
        ("current-workers", &count.workers),
        ("current-waiting", &count.waiting),
        ("total-connections", &count.connections_ever),
    ];
    let yaml = connections.into_iter().fold(yaml, |yaml, (name, counter)| {
        yaml.entry(name, counter.get())
    });
    Ok(process(hub, yaml).0)
}

/// Statistics of the process. The journal entries are constant, because there is no journal.
fn process(hub: &Hub, yaml: Yaml) -> Yaml {
    yaml.entry("pid", std::process::id())
        .text("version", VERSION)
        .entry("rusage-utime", "0.000000")
        .entry("rusage-stime", "0.000000")
        .entry("uptime", hub.started.elapsed().as_secs())
        .entry("binlog-oldest-index", 0)
        .entry("binlog-current-index", 0)
        .entry("binlog-records-migrated", 0)
        .entry("binlog-records-written", 0)
        .entry("binlog-max-size", 0)
        .entry("draining", hub.draining.is_on())
        .entry("id", &hub.id)
        .text("hostname", host())
        .text("os", std::env::consts::OS)
        .text("platform", std::env::consts::ARCH)
}

/// The name of this host, if the system tells it.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.unwrap_or_default();
    let name = name.trim();
    let name = name
        .chars()
        .filter(|part| part.is_ascii_graphic() && *part != '"');
    name.collect()
}
