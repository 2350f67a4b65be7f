//! Settings shown by a server.

use std::collections::HashMap;

use super::Terms;
use delayq_core::store::Durability;
use delayq_core::{Error, Result};

use crate::connection::{self, Command, RespValue};
use crate::memory_limit::Memory;

/// The settings that are read by name.
const SETTINGS: [&str; 7] = [
    "CONFIG",
    "GET",
    "appendonly",
    "appendfsync",
    "maxmemory-policy",
    "min-replicas-to-write",
    "min-replicas-max-lag",
];

/// The first major version with flags for scripts, without which a full server could not be
/// drained.
const MIN_MAJOR: u32 = 7;

/// The settings shown by a server. A managed server, or an ACL, may hide the answers to INFO and to
/// CONFIG GET; each server identifies itself in its answer to HELLO.
pub(super) struct Snapshot {
    place: String,
    hello: HashMap<String, String>,
    info: Option<HashMap<String, String>>,
    config: Option<HashMap<String, String>>,
}

/// The questions, in the order of the answers for [`Snapshot::new`].
pub(super) fn questions() -> [Command; 3] {
    [&["HELLO"][..], &["INFO"], &SETTINGS].map(Command::read)
}

impl Snapshot {
    /// # Errors
    /// The error that prevented an answer. A refusal to answer is not an error.
    pub(super) fn new(place: &str, answers: [Result<RespValue>; 3]) -> Result<Self> {
        let [hello, info, config] = answers;
        // HELLO cannot be forbidden, so this error is about the connection.
        if let Err(error @ Error::Misconfigured { .. }) = hello {
            return Err(error);
        }
        let [hello, info, config] = [hello, info, config].map(shown);
        let parse = |text: RespValue| text.fields().text().ok().map(|text| parse(&text));
        Ok(Self {
            place: place.to_owned(),
            hello: hello?.map(RespValue::texts).unwrap_or_default(),
            info: info?.and_then(parse),
            config: config?.map(RespValue::texts),
        })
    }

    fn info(&self, name: &str) -> Option<&str> {
        self.info.as_ref()?.get(name).map(String::as_str)
    }

    fn config(&self, name: &str) -> Option<&str> {
        self.config.as_ref()?.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.info(name)?.parse().ok()
    }

    fn refuse<T>(&self, setting: impl Into<String>, fix: impl Into<String>) -> Result<T> {
        Err(Error::misconfigured(
            self.place.clone(),
            setting.into(),
            fix.into(),
        ))
    }

    pub(super) fn check_kind(&self, is_cluster: bool) -> Result<()> {
        let of_hello = |name: &str| self.hello.get(name).map(String::as_str);
        let version = of_hello("version").or_else(|| self.info("redis_version"));
        let version = version.unwrap_or_default();
        let major = version.split('.').next().map(str::parse);
        if !matches!(major, Some(Ok(MIN_MAJOR..))) {
            let setting = format!("its version is {version:?}");
            return self.refuse(setting, "use Redis 7.0 or newer, or Valkey");
        }
        match (of_hello("mode"), is_cluster) {
            (Some("cluster"), false) => {
                return self.refuse(
                    "it is a node of a cluster",
                    "write redis-cluster://HOST:PORT, or connect to a server with `cluster-enabled no`",
                );
            }
            (Some("standalone"), true) => {
                return self.refuse("it is no node of a cluster", "write redis://HOST:PORT");
            }
            _ => {}
        }
        if of_hello("role") == Some("replica") {
            return Err(Error::read_only(
                self.place.clone(),
                "it is a replica: connect to its primary",
            ));
        }
        Ok(())
    }

    /// The class of an acknowledgement, if the required settings are in place.
    ///
    /// # Errors
    /// `Misconfigured` with the line to change, or with the option to add if the server shows too
    /// little. `Unavailable` if too few replicas are connected.
    pub(super) fn durability(&self, terms: &Terms) -> Result<Durability> {
        self.check_memory()?;
        let (least, most) = self.classes();
        let is_replicated = terms.wanted == Durability::Replicated;
        if is_replicated {
            self.check_replicas(terms.config.least_replicas())?;
        } else if most < terms.wanted {
            let asked = format!("durability {:?} is asked for", terms.wanted.as_str());
            return self.refuse_class(most, terms.wanted, &asked, "ask for durability");
        }
        let hidden = self.hidden(terms);
        if !hidden.is_empty()
            && terms
                .config
                .assumed_durability
                .is_none_or(|assumed| assumed < terms.wanted)
        {
            return self.refuse_hidden(&hidden, terms.wanted);
        }
        match terms.config.assumed_durability {
            _ if is_replicated => self
                .count_replicas(terms.config.least_replicas())
                .map(|()| terms.wanted),
            Some(assumed) if assumed > most => {
                let asked = format!("{:?} is assumed", assumed.as_str());
                self.refuse_class(most, assumed, &asked, "assume")
            }
            assumed => Ok(assumed.map_or(least, |assumed| assumed.max(least))),
        }
    }

    /// Settings that the server does not show, so that the store has to take them on trust.
    pub(super) fn hidden(&self, terms: &Terms) -> Vec<&'static str> {
        let mut hidden = Vec::new();
        if self.policy().is_none() {
            hidden.push("maxmemory-policy");
        }
        if terms.wanted == Durability::Replicated {
            if self.config("min-replicas-to-write").is_none() {
                hidden.push("min-replicas-to-write");
            }
            return hidden;
        }
        let (least, most) = self.classes();
        if terms
            .config
            .assumed_durability
            .unwrap_or(terms.wanted)
            .max(terms.wanted)
            > least
            && least < most
        {
            if self.is_appending().is_none() {
                hidden.push("appendonly");
            }
            if self.config("appendfsync").is_none() {
                hidden.push("appendfsync");
            }
        }
        hidden
    }

    fn policy(&self) -> Option<&str> {
        let of_info = || self.info("maxmemory_policy");
        self.config("maxmemory-policy").or_else(of_info)
    }

    fn is_appending(&self) -> Option<bool> {
        let of_info = self.info("aof_enabled").map(|value| value == "1");
        of_info.or_else(|| self.config("appendonly").map(|value| value == "yes"))
    }

    /// The weakest and the strongest class possible for this server alone, according to the
    /// settings shown.
    fn classes(&self) -> (Durability, Durability) {
        match (self.is_appending(), self.config("appendfsync")) {
            (Some(false), _) => (Durability::Memory, Durability::Memory),
            (Some(true), Some("always")) => (Durability::Disk, Durability::Disk),
            (Some(true), Some(_)) => (Durability::Process, Durability::Process),
            (Some(true), None) => (Durability::Process, Durability::Disk),
            (None, None | Some("always")) => (Durability::Memory, Durability::Disk),
            (None, Some(_)) => (Durability::Memory, Durability::Process),
        }
    }

    fn check_memory(&self) -> Result<()> {
        match self.policy() {
            None | Some("noeviction") => Ok(()),
            Some(policy) => self.refuse(
                format!("maxmemory-policy is {policy:?}, so a full server throws tasks away"),
                "set `maxmemory-policy noeviction` in redis.conf (while it runs: CONFIG SET \
                 maxmemory-policy noeviction)",
            ),
        }
    }

    fn refuse_class<T>(
        &self,
        most: Durability,
        class: Durability,
        asked: &str,
        instead: &str,
    ) -> Result<T> {
        if most == Durability::Memory {
            let fsync = match class {
                Durability::Disk => " and `appendfsync always`",
                _ => "",
            };
            return self.refuse(
                format!("appendonly is no, so a crash of the server loses tasks; {asked}"),
                format!(
                    "set `appendonly yes`{fsync} in redis.conf (while it runs: CONFIG SET appendonly \
                     yes), or {instead} `memory`"
                ),
            );
        }
        let fsync = self.config("appendfsync").unwrap_or_default();
        self.refuse(
            format!("appendfsync is {fsync}, so a power loss loses the last tasks; {asked}"),
            format!(
                "set `appendfsync always` in redis.conf (while it runs: CONFIG SET appendfsync always), or \
                 {instead} `process`"
            ),
        )
    }

    fn refuse_hidden<T>(&self, hidden: &[&str], wanted: Durability) -> Result<T> {
        let command = match (&self.info, &self.config) {
            (None, None) => "INFO and CONFIG GET",
            (None, _) => "INFO",
            _ => "CONFIG GET",
        };
        let wanted = wanted.as_str();
        let setting = format!(
            "it does not show {} ({command} is forbidden or renamed), and durability {wanted:?} is asked for",
            hidden.join(", ")
        );
        let fix = format!(
            "let its user run {command}; or, if you know that it keeps that class, say so: `?assume={wanted}` \
             behind the URL, or `assumed_durability` of RedisConfig"
        );
        self.refuse(setting, fix)
    }

    /// Without enough replicas a master has to refuse writes. Otherwise a master that is cut off
    /// and has been replaced would go on acknowledging.
    fn check_replicas(&self, wanted: u32) -> Result<()> {
        // INFO shows this field only if the setting has an effect.
        let is_off = self.info.is_some() && self.info("min_slaves_good_slaves").is_none();
        let number = self.config("min-replicas-to-write");
        let number = number.or_else(|| is_off.then_some("0"));
        if number.and_then(|number| number.parse().ok()) < Some(wanted) && number.is_some() {
            return self.refuse(
                format!(
                    "min-replicas-to-write is {}, so a master that is cut off from its replicas goes on \
                     acknowledging; durability \"replicated\" with {wanted} of them is asked for",
                    number.unwrap_or_default()
                ),
                format!(
                    "set `min-replicas-to-write {wanted}` in redis.conf of the master and of each replica \
                     (while it runs: CONFIG SET min-replicas-to-write {wanted})"
                ),
            );
        }
        if self.config("min-replicas-max-lag") == Some("0") {
            return self.refuse(
                "min-replicas-max-lag is 0, which turns min-replicas-to-write off",
                "set `min-replicas-max-lag 10` in redis.conf of the master and of each replica (while it \
                 runs: CONFIG SET min-replicas-max-lag 10)",
            );
        }
        Ok(())
    }

    fn count_replicas(&self, wanted: u32) -> Result<()> {
        let Some(info) = &self.info else {
            return Ok(());
        };
        let is_online = |(name, value): &(&String, &String)| {
            let number = name.strip_prefix("slave");
            number.is_some_and(|number| number.parse::<u32>().is_ok())
                && value.contains("state=online")
        };
        let connected = info.iter().filter(is_online).count();
        if connected >= usize::try_from(wanted).unwrap_or(usize::MAX) {
            return Ok(());
        }
        Err(Error::unavailable(
            self.place.clone(),
            format!(
                "{connected} of its replicas are connected, and {wanted} have to confirm each write: start \
                 replicas, or lower `replicas`"
            ),
        ))
    }

    pub(super) fn check_disk(&self) -> Result<()> {
        if self.is_appending() == Some(true) && self.info("aof_last_write_status") == Some("err") {
            let text = "its last write to the append-only file failed; free space on its disk, see its log";
            return Err(Error::read_only(self.place.clone(), text));
        }
        Ok(())
    }

    pub(super) fn check_memory_limit(&self, terms: &Terms) -> Result<()> {
        let memory = Memory::of(|name| self.number(name));
        let share = terms.config.memory_watermark.unwrap_or(1.0);
        memory.map_or(Ok(()), |memory| memory.check(&self.place, share))
    }
}

/// An answer, or `None` if the server refuses to give it.
fn shown(answer: Result<RespValue>) -> Result<Option<RespValue>> {
    match answer {
        Ok(reply) => Ok(Some(reply)),
        Err(Error::Misconfigured { .. } | Error::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(info: &str) -> HashMap<String, String> {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    connection::info(info).map(owned).collect()
}

#[cfg(test)]
mod tests;
