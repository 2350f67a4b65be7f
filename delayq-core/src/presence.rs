//! The list of running instances, for people. No operation on tasks reads it.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

mod pool;
mod recent;

pub use pool::{MAX_INSTANCE_POOLS, PoolUse};
pub use recent::{MAX_RECENT_TYPES, RecentWork, TypeWork};

use crate::error::Result;
use crate::name::TaskType;
use crate::time::Timestamp;

/// How often a plugin announces itself. It also does so at once when its served types change.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(10);

/// How long an instance is listed after its last announcement, by default: one announcement may be
/// lost, and the next one be late. A process that died counts as serving for no longer.
pub const INSTANCE_EXPIRY: Duration = Duration::from_secs(30);

/// Maximum number of instances in a listing, earliest start first. Limits the size of one answer.
pub const MAX_INSTANCES: usize = 1_000;

/// Maximum number of types named by one instance; the number that it serves is always listed.
pub const MAX_INSTANCE_TYPES: usize = 100;

/// The list of running instances. By default a store keeps nothing and lists no instance.
#[async_trait]
pub trait Presence: Send + Sync {
    /// Lists an instance until it has been silent for `holds`; a repeated announcement replaces the
    /// former one. The store sets `seen_at` to its present time. Forgets other instances that have
    /// been silent too long.
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        let _ = (instance, holds);
        Ok(())
    }

    /// Takes an instance off the list.
    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        let _ = id;
        Ok(())
    }

    /// The running instances by their ids, and so in the order of their starts; at most
    /// [`MAX_INSTANCES`].
    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        Ok(Vec::new())
    }
}

/// The version of the stored format.
const VERSION: u32 = 1;

/// Length of the short form of an identity.
pub const SHORT_LEN: usize = 8;

/// The identity of one running instance: a ULID generated at its start, so that it is unique even
/// if host and pid repeat. Ordered by start, to the millisecond.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(String);

impl InstanceId {
    /// A new identity.
    #[must_use]
    pub fn generate() -> Self {
        Self(ulid::Ulid::generate().to_string())
    }

    /// Its 26 characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its last eight characters, by which a task names its [holder](crate::TaskInfo::holder).
    /// Forty random bits are enough to distinguish the instances in a list.
    #[must_use]
    pub fn short(&self) -> &str {
        let at = self.0.len().saturating_sub(SHORT_LEN);
        self.0.get(at..).unwrap_or(&self.0)
    }

    /// An id that was stored.
    #[must_use]
    pub fn stored(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A running instance, as it announced itself. In JSON its types are text, and its times are
/// milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InstanceInfo {
    /// Its identity.
    pub id: InstanceId,
    /// The name of its host.
    pub host: String,
    /// Its process id, on its host or in its container.
    pub pid: u32,
    /// Its version of delayq.
    pub version: String,
    /// The types that it serves, sorted; only the first [`MAX_INSTANCE_TYPES`].
    pub types: Vec<TaskType>,
    /// The number of types that it serves.
    pub type_count: usize,
    /// Its start time, by its own clock.
    pub started_at: Timestamp,
    /// The time when it last announced itself, by the store's clock. The store sets it.
    pub seen_at: Timestamp,
    /// Its work in the last minutes; `None` if it reports none, as in earlier releases.
    pub recent: Option<RecentWork>,
    /// Its pools, by name; only the first [`MAX_INSTANCE_POOLS`]. Empty if it has none, and in
    /// earlier releases.
    pub pools: Vec<PoolUse>,
}

impl InstanceInfo {
    /// An instance of this version of delayq that serves nothing yet, started at `started_at` by
    /// its own clock.
    #[must_use]
    pub fn new(id: InstanceId, host: impl Into<String>, pid: u32, started_at: Timestamp) -> Self {
        Self {
            id,
            host: host.into(),
            pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            types: Vec::new(),
            type_count: 0,
            started_at,
            seen_at: Timestamp::ZERO,
            recent: None,
            pools: Vec::new(),
        }
    }

    /// The same instance, serving these types.
    #[must_use]
    pub fn serving(mut self, types: &[TaskType]) -> Self {
        self.type_count = types.len();
        self.types = types.iter().take(MAX_INSTANCE_TYPES).cloned().collect();
        self
    }

    /// True if it serves the type. Also true if it serves more than [`MAX_INSTANCE_TYPES`], because
    /// it does not name all of them.
    #[must_use]
    pub fn may_serve(&self, task_type: &TaskType) -> bool {
        self.type_count > self.types.len() || self.types.contains(task_type)
    }
}

/// The number of listed instances that may serve a type. If the list is full, the number is at
/// least one: an instance that serves the type may be missing from the list.
#[must_use]
pub fn serving(instances: &[InstanceInfo], task_type: &TaskType) -> usize {
    let serves = |one: &&InstanceInfo| one.may_serve(task_type);
    let serving = instances.iter().filter(serves).count();
    let is_full = instances.len() >= MAX_INSTANCES;
    serving.max(usize::from(is_full))
}

impl fmt::Display for InstanceInfo {
    /// One line: `01J.. shop-3 pid 17, delayq 0.1.0, started .., seen ..: mail.send, order.cancel`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            host,
            pid,
            version,
            started_at,
            seen_at,
            ..
        } = self;
        write!(
            f,
            "{id} {host} pid {pid}, delayq {version}, started {started_at}, seen {seen_at}:"
        )?;
        for (nth, name) in self.types.iter().enumerate() {
            write!(f, "{} {name}", if nth == 0 { "" } else { "," })?;
        }
        match self.type_count.saturating_sub(self.types.len()) {
            0 => Ok(()),
            more => write!(f, ", {more} more"),
        }
    }
}

/// The stored format, without the id and the time.
#[derive(Serialize, Deserialize)]
struct StoredInstance {
    v: u32,
    host: String,
    pid: u32,
    version: String,
    types: Vec<String>,
    type_count: usize,
    started: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recent: Option<recent::Stored>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pools: Vec<PoolUse>,
}

/// The stored format of an announcement, used by every store of this project.
#[must_use]
pub fn encode(instance: &InstanceInfo) -> String {
    let stored = StoredInstance {
        v: VERSION,
        host: instance.host.clone(),
        pid: instance.pid,
        version: instance.version.clone(),
        types: instance.types.iter().map(ToString::to_string).collect(),
        type_count: instance.type_count,
        started: instance.started_at.as_millis(),
        recent: instance.recent.as_ref().map(Into::into),
        pools: instance.pools.clone(),
    };
    // Text and numbers can always be written as JSON.
    serde_json::to_string(&stored).unwrap_or_default()
}

/// The announcement written by [`encode`] for `id`; `None`, and a line in the log, if it is
/// unreadable. In a newer version, only the fields known to this one are read.
#[must_use]
pub fn decode(id: String, seen_at: Timestamp, stored: &[u8]) -> Option<InstanceInfo> {
    let stored = serde_json::from_slice(stored);
    let log = |error: &_| tracing::warn!(id, %error, "cannot read an announced instance; it is missing from the list");
    let stored: StoredInstance = stored.inspect_err(log).ok()?;
    let types = stored.types.iter().map(TaskType::new);
    Some(InstanceInfo {
        id: InstanceId::stored(id),
        host: stored.host,
        pid: stored.pid,
        version: stored.version,
        types: types.filter_map(Result::ok).collect(),
        type_count: stored.type_count,
        started_at: Timestamp::from_millis(stored.started),
        seen_at,
        recent: stored.recent.map(Into::into),
        pools: stored.pools,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chronicle::Figures;

    fn instance() -> InstanceInfo {
        let types = ["mail.send", "order.cancel"].map(|name| TaskType::new(name).unwrap());
        let instance = InstanceInfo {
            id: InstanceId::stored("01JDAY0000000000000000000A".to_owned()),
            host: "shop-3".to_owned(),
            pid: 17,
            version: "0.1.0".to_owned(),
            types: Vec::new(),
            type_count: 0,
            started_at: Timestamp::from_millis(1_767_225_600_000),
            seen_at: Timestamp::from_millis(1_767_225_605_000),
            recent: None,
            pools: Vec::new(),
        };
        instance.serving(&types)
    }

    const STORED: &str = r#"{"v":1,"host":"shop-3","pid":17,"version":"0.1.0","types":["mail.send","order.cancel"],"type_count":2,"started":1767225600000}"#;

    fn read(stored: &str) -> Option<InstanceInfo> {
        let instance = instance();
        decode(instance.id.to_string(), instance.seen_at, stored.as_bytes())
    }

    #[test]
    fn the_stored_form_is_what_earlier_releases_wrote() {
        assert_eq!(encode(&instance()), STORED);
        assert_eq!(read(STORED), Some(instance()));
    }

    #[test]
    fn a_newer_form_is_read_as_far_as_it_is_known_and_damage_is_left_out() {
        let newer = STORED.replace("\"v\":1", "\"v\":2,\"zone\":\"b\"");
        assert_eq!(read(&newer), Some(instance()));
        for damaged in ["", "{}", "null", &STORED[..40]] {
            assert_eq!(read(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn the_work_of_the_last_minutes_travels_with_it() {
        let work = |name: &str, started| {
            let mut figures = Figures {
                started,
                ..Figures::default()
            };
            figures.lateness.add(3, started);
            TypeWork {
                task_type: TaskType::new(name).unwrap(),
                figures,
            }
        };
        let types = vec![
            work("idle", 0),
            work("order.cancel", 2),
            work("mail.send", 9),
        ];
        let recent = RecentWork::new(Timestamp::from_millis(1_767_225_300_000), types);
        assert_eq!(
            recent
                .of(&TaskType::new("mail.send").unwrap())
                .unwrap()
                .started,
            9
        );
        let pool = PoolUse::new("mail", 16, 3);
        let busy = InstanceInfo {
            recent: Some(recent),
            pools: vec![pool],
            ..instance()
        };
        let stored = encode(&busy);
        let tail = r#","recent":{"since":1767225300000,"types":[["mail.send",[9,0,0,0,0,0],[[3,9]]],["order.cancel",[2,0,0,0,0,0],[[3,2]]]]},"pools":[{"name":"mail","slots":16,"used":3,"types":0}]}"#;
        assert!(stored.ends_with(tail), "{stored}");
        assert_eq!(read(&stored), Some(busy));
    }

    #[test]
    fn it_is_shown_in_a_line_and_as_json() {
        let line = "01JDAY0000000000000000000A shop-3 pid 17, delayq 0.1.0, started \
             2026-01-01T00:00:00.000Z, seen 2026-01-01T00:00:05.000Z: mail.send, order.cancel";
        assert_eq!(instance().to_string(), line);
        let json = serde_json::to_value(instance()).unwrap();
        assert_eq!(
            json["types"],
            serde_json::json!(["mail.send", "order.cancel"])
        );
        assert_eq!(json["seen_at"], 1_767_225_605_000_i64);
    }

    #[test]
    fn a_list_that_is_full_may_leave_out_who_serves_a_type() {
        let other = TaskType::new("nobody.does").unwrap();
        let mut listed = vec![instance(); MAX_INSTANCES - 1];
        assert_eq!(serving(&listed, &instance().types[0]), MAX_INSTANCES - 1);
        assert_eq!(serving(&listed, &other), 0);
        listed.push(instance());
        assert_eq!(serving(&listed, &other), 1);
    }

    #[test]
    fn only_so_many_types_are_named() {
        let types: Vec<_> = (0..MAX_INSTANCE_TYPES + 5)
            .map(|n| TaskType::new(format!("t{n:04}")).unwrap())
            .collect();
        let wide = instance().serving(&types);
        assert_eq!(
            (wide.types.len(), wide.type_count),
            (MAX_INSTANCE_TYPES, 105)
        );
        assert!(wide.to_string().ends_with("t0099, 5 more"));
    }
}
