//! The look at the server before anything is trusted to it: whether it keeps the promises as it is set up,
//! and which line to change if it does not.

use std::collections::HashMap;
use std::sync::Arc;

use super::client::{Client, Command, Node};
use super::scope::Scope;
use super::scripts::Script;
use crate::error::{Error, Result};
use crate::store::Durability;

/// What the user of the connection needs, beside being `on`. Without `+config|get` the store cannot see
/// `appendfsync` and assumes its default.
pub(super) const GRANT: &str = "grant it `~delayq:* &delayq:* +@hash +@sortedset +@set +evalsha \
    +script|load +publish +subscribe +info +select +time +type +unlink +rename +pexpire +config|get` \
    with ACL SETUSER";

/// The first major version with flags for scripts, without which a full server could not be drained.
const MIN_MAJOR: u32 = 7;

/// What `INFO` says.
struct Info {
    place: String,
    fields: HashMap<String, String>,
    /// `CONFIG GET appendfsync`, if the user may ask.
    appendfsync: Option<String>,
}

/// What a server that keeps the promises is like.
pub(super) struct Found {
    /// The class that an acknowledgement of this server has.
    pub(super) durability: Durability,
    /// Whether it takes new tasks. A full one is used all the same: it can be drained.
    pub(super) room: Result<()>,
}

/// Checks everything, on every server that holds data.
pub(super) async fn check(client: &Client, scope: &Scope) -> Result<Found> {
    let mut found: Option<Found> = None;
    for node in client.servers() {
        let one = check_one(client, scope, &node).await?;
        found = Some(match found {
            None => one,
            Some(found) => Found {
                durability: found.durability.min(one.durability),
                room: found.room.and(one.room),
            },
        });
    }
    found.ok_or_else(|| Error::Unavailable {
        store: client.place().to_string(),
        detail: "it has no node that holds data".to_owned(),
    })
}

async fn check_one(client: &Client, scope: &Scope, node: &Arc<Node>) -> Result<Found> {
    let options = &scope.options;
    let info = read(client, node).await?;
    info.check_kind(client.route().is_cluster())?;
    check_permissions(client, scope, node).await?;
    info.check_memory()?;
    info.check_disk()?;
    let durability = info.durability(options.durability);
    info.check_durability(durability, options.durability)?;
    let room = info.check_room();
    Ok(Found { durability, room })
}

async fn check_permissions(client: &Client, scope: &Scope, node: &Arc<Node>) -> Result<()> {
    let key = scope.keys.probe();
    let publish = if client.route().is_cluster() {
        "SPUBLISH"
    } else {
        "PUBLISH"
    };
    let command = Command::script(Script::Preflight, 0, std::iter::empty(), 128)
        .arg(publish)
        .arg(scope.keys.wake_channel())
        .arg(&key);
    let mut denied = client.ask(node, command).await?.fields();
    let mut names = Vec::new();
    while !denied.is_empty() {
        names.push(denied.text()?);
    }
    if names.is_empty() {
        return Ok(());
    }
    Err(Error::Misconfigured {
        store: node.place().to_string(),
        setting: format!("its user may not run {} on delayq's keys", names.join(", ")),
        fix: GRANT.to_owned(),
    })
}

async fn read(client: &Client, node: &Arc<Node>) -> Result<Info> {
    let info = client.ask(node, Command::read(&["INFO"])).await?;
    let text = info.fields().text()?;
    let ask = Command::read(&["CONFIG", "GET", "appendfsync"]);
    let appendfsync = match client.ask(node, ask).await {
        Ok(reply) => {
            let mut fields = reply.fields();
            fields.text().and_then(|_| fields.text()).ok()
        }
        // Managed servers and ACLs hide it.
        Err(Error::Misconfigured { .. } | Error::Corrupt { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(Info {
        place: node.place().to_string(),
        fields: parse(&text),
        appendfsync,
    })
}

fn parse(info: &str) -> HashMap<String, String> {
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

impl Info {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    fn refuse(&self, setting: impl Into<String>, fix: impl Into<String>) -> Result<()> {
        Err(Error::Misconfigured {
            store: self.place.clone(),
            setting: setting.into(),
            fix: fix.into(),
        })
    }

    fn check_kind(&self, is_cluster: bool) -> Result<()> {
        let version = self.field("redis_version");
        let major = version
            .split('.')
            .next()
            .and_then(|major| major.parse().ok());
        if major.is_none_or(|major: u32| major < MIN_MAJOR) {
            let setting = format!("its version is {version:?}");
            return self.refuse(setting, "use Redis 7.0 or newer, or Valkey");
        }
        if self.field("cluster_enabled") == "1" && !is_cluster {
            let setting = "it is a node of a cluster";
            return self.refuse(setting, "write redis-cluster://HOST:PORT for it");
        }
        if self.field("role") == "slave" {
            return Err(Error::ReadOnly {
                store: self.place.clone(),
                detail: "it is a replica: connect to its primary".to_owned(),
            });
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<()> {
        match self.field("maxmemory_policy") {
            "noeviction" => Ok(()),
            policy => self.refuse(
                format!("maxmemory-policy is {policy:?}, so a full server throws tasks away"),
                "set `maxmemory-policy noeviction` in redis.conf (while it runs: CONFIG SET \
                 maxmemory-policy noeviction)",
            ),
        }
    }

    fn check_room(&self) -> Result<()> {
        let number = |name| self.field(name).parse().unwrap_or(0_u64);
        let (used, limit) = (number("used_memory"), number("maxmemory"));
        if limit == 0 || used < limit {
            return Ok(());
        }
        Err(Error::Full {
            store: self.place.clone(),
            detail: format!(
                "its memory ({used} B) is at maxmemory ({limit} B): raise maxmemory, or let workers drain it"
            ),
        })
    }

    fn check_disk(&self) -> Result<()> {
        let failed = |what: &str| Error::ReadOnly {
            store: self.place.clone(),
            detail: format!("{what}; free space on its disk, see its log"),
        };
        if self.field("aof_enabled") == "1" && self.field("aof_last_write_status") == "err" {
            return Err(failed("its last write to the append-only file failed"));
        }
        Ok(())
    }

    fn durability(&self, wanted: Durability) -> Durability {
        if wanted == Durability::Replicated {
            // Each write waits for its replicas.
            return wanted;
        }
        if self.field("aof_enabled") != "1" {
            return Durability::Memory;
        }
        match self.appendfsync.as_deref() {
            Some("always") => Durability::Disk,
            // The default is `everysec`.
            _ => Durability::Process,
        }
    }

    fn check_durability(&self, found: Durability, wanted: Durability) -> Result<()> {
        if found >= wanted {
            return Ok(());
        }
        let asked = format!("durability {:?} is asked for", wanted.as_str());
        if found == Durability::Memory {
            let fsync = match wanted {
                Durability::Disk => " and `appendfsync always`",
                _ => "",
            };
            return self.refuse(
                format!("appendonly is no, so a crash of the server loses tasks; {asked}"),
                format!(
                    "set `appendonly yes`{fsync} in redis.conf (while it runs: CONFIG SET appendonly \
                     yes), or ask for durability `memory`"
                ),
            );
        }
        let fsync = self
            .appendfsync
            .as_deref()
            .unwrap_or("not shown (CONFIG is forbidden)");
        self.refuse(
            format!("appendfsync is {fsync}, so a power loss loses the last tasks; {asked}"),
            "set `appendfsync always` in redis.conf (while it runs: CONFIG SET appendfsync always), or \
             ask for durability `process`",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str, appendfsync: Option<&str>) -> Info {
        Info {
            place: "redis://h:1/0".to_owned(),
            fields: parse(text),
            appendfsync: appendfsync.map(str::to_owned),
        }
    }

    #[test]
    fn versions_with_script_flags_are_accepted() {
        let of = |version| info(&format!("redis_version:{version}\r\n"), None).check_kind(false);
        for good in ["7.0.0", "7.2.4", "8.6.1", "10.0.0"] {
            assert_eq!(of(good), Ok(()), "{good}");
        }
        for bad in ["6.2.14", "", "x"] {
            assert!(matches!(of(bad), Err(Error::Misconfigured { .. })), "{bad}");
        }
    }

    #[test]
    fn the_class_follows_from_the_append_only_file() {
        let class = |aof, fsync| {
            info(&format!("aof_enabled:{aof}\r\n"), fsync).durability(Durability::Memory)
        };
        assert_eq!(class(0, Some("always")), Durability::Memory);
        assert_eq!(class(1, Some("no")), Durability::Process);
        assert_eq!(class(1, Some("everysec")), Durability::Process);
        assert_eq!(class(1, None), Durability::Process);
        assert_eq!(class(1, Some("always")), Durability::Disk);
    }

    #[test]
    fn a_class_that_cannot_be_kept_is_refused_with_the_line_to_change() {
        let fix = |aof, wanted| {
            let info = info(&format!("aof_enabled:{aof}\r\n"), Some("everysec"));
            let refusal = info.check_durability(info.durability(wanted), wanted);
            refusal.unwrap_err().to_string()
        };
        assert!(fix(0, Durability::Process).contains("`appendonly yes`"));
        assert!(fix(0, Durability::Disk).contains("`appendonly yes` and `appendfsync always`"));
        assert!(fix(1, Durability::Disk).contains("`appendfsync always`"));
    }
}
