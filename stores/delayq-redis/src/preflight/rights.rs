//! Rights of the user: the commands needed by the store.

use super::Terms;
use delayq_core::store::Durability;
use delayq_core::{Error, Result};

use crate::config::RedisServers;
use crate::connection::{Command, RespValue, grant};
use crate::scripts::{Keyspace, Script};

/// Asks for the commands that the user may not run.
pub(super) fn question(keys: &Keyspace, terms: &Terms) -> Command {
    let question = Command::script(Script::Preflight.lua(), keys.slot(), &[], 256)
        .arg(keys.probe())
        .arg(keys.types());
    further(terms).iter().fold(question, |question, command| {
        question.arg(command.replace("CHANNEL", &keys.wake_channel()))
    })
}

/// The commands that only some stores need.
fn further(terms: &Terms) -> Vec<&'static str> {
    let mut further = match terms.config.servers {
        RedisServers::One(_) => vec!["PUBLISH CHANNEL -", "SUBSCRIBE CHANNEL"],
        RedisServers::Sentinel { .. } => vec!["PUBLISH CHANNEL -", "SUBSCRIBE CHANNEL", "ROLE"],
        RedisServers::Cluster { .. } => vec![
            "SPUBLISH CHANNEL -",
            "SSUBSCRIBE CHANNEL",
            "CLUSTER INFO",
            "CLUSTER SLOTS",
            "ASKING",
        ],
    };
    if terms.wanted == Durability::Replicated {
        further.push("WAIT 1 0");
        // The master is asked for its replicas with each write.
        match terms.config.servers {
            _ if terms.config.replicas.is_some() => {}
            RedisServers::One(_) => {}
            RedisServers::Sentinel { .. } => further.push("INFO"),
            RedisServers::Cluster { .. } => {
                further.extend(["INFO", "CLUSTER MYID", "CLUSTER REPLICAS -"]);
            }
        }
    }
    further
}

/// # Errors
/// `Misconfigured` if `user` (without a name: `default`) lacks a right.
pub(super) fn check(place: &str, user: Option<&str>, denied: RespValue) -> Result<()> {
    let (mut names, mut fields) = (Vec::new(), denied.fields());
    while !fields.is_empty() {
        names.push(fields.text()?);
    }
    if names.is_empty() {
        return Ok(());
    }
    Err(Error::misconfigured(
        place,
        format!(
            "its user may not run {} on delayq's keys and channels (or the server has renamed that)",
            names.join(", ")
        ),
        grant(user),
    ))
}

#[cfg(test)]
mod tests {
    use crate::config::RedisConfig;
    use crate::connection::GRANT;
    use crate::scripts::FILES;
    use std::collections::BTreeSet;

    use super::*;

    /// Commands that every store sends besides the scripts. `srem` is not checked at the start: a
    /// user created before it was needed can do everything except drop a type.
    const SENT: [&str; 10] = [
        "config|get",
        "evalsha",
        "info",
        "sadd",
        "script|load",
        "select",
        "sismember",
        "srem",
        "sscan",
        "type",
    ];

    /// Scripts whose commands are not checked at the start either: a user created before they were
    /// needed can do everything except log actions.
    const LATER: [Script; 2] = [Script::Log, Script::Actions];

    /// Commands that some store sends, or one of its scripts, as written in the grant.
    fn sent_by_some() -> BTreeSet<String> {
        let urls = ["redis://h", "redis-sentinel://h/m", "redis-cluster://h"];
        let terms = urls.map(|url| Terms {
            wanted: Durability::Replicated,
            config: RedisConfig::parse(url).unwrap(),
        });
        let further = terms.iter().flat_map(further);
        let name = |command: &str| match command.split_once(' ') {
            Some(("CLUSTER", rest)) => {
                let subcommand = rest.split(' ').next().unwrap_or_default();
                format!("cluster|{}", subcommand.to_lowercase())
            }
            Some((name, _)) => name.to_lowercase(),
            None => command.to_lowercase(),
        };
        further.map(name).collect()
    }

    /// The words in capitals between quotes, which are commands.
    fn named(lua: &str) -> impl Iterator<Item = String> {
        let words = lua.split('\'').skip(1).step_by(2);
        let is_command = |word: &&str| word.bytes().all(|c| c.is_ascii_uppercase());
        words.filter(is_command).map(str::to_lowercase)
    }

    fn without_comments(lua: &str) -> String {
        let code = |line: &str| line.split("--").next().unwrap_or_default().to_owned();
        lua.lines().map(code).collect::<Vec<_>>().join("\n")
    }

    /// The commands of a script: the first argument of each `call`.
    fn called(script: Script) -> BTreeSet<String> {
        let lua = without_comments(script.lua().source());
        let mut calls = BTreeSet::new();
        for (at, call) in lua.match_indices("call(") {
            let (before, after) = (&lua[..at], &lua[at + call.len()..]);
            // For example `next_call()`, which is a function of a script.
            let is_pcall = before.ends_with("redis.p");
            if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !is_pcall {
                continue;
            }
            let mut depth = 0;
            let end = after.find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth < 0 || depth == 0 && c == ','
            });
            let command = &after[..end.unwrap()];
            let mut names = named(command).peekable();
            let is_named = names.peek().is_some();
            assert!(is_named, "{script:?}: name the command in call({command}");
            calls.extend(names);
        }
        calls
    }

    #[test]
    fn what_is_granted_is_what_is_used_and_what_scripts_use_is_asked_for_at_the_start() {
        let granted: BTreeSet<_> = GRANT.split(" +").skip(1).map(str::to_owned).collect();
        let mut used = sent_by_some();
        let preflight = without_comments(Script::Preflight.lua().source());
        let probe = without_comments(Script::FarProbe.lua().source());
        let asked = named(&preflight).chain(named(&probe));
        let asked: BTreeSet<_> = asked.chain(used.clone()).collect();
        used.extend(SENT.map(str::to_owned));
        for (script, _) in FILES {
            if script == Script::Preflight || script == Script::FarProbe {
                continue;
            }
            for command in called(script) {
                assert!(granted.contains(&command), "{script:?}: grant {command}");
                assert!(
                    asked.contains(&command) || LATER.contains(&script),
                    "{script:?}: ask for {command} in preflight.lua"
                );
                used.insert(command);
            }
        }
        assert_eq!(granted, used, "what is granted, and what is used");
    }

    #[test]
    fn rights_are_granted_once_and_in_the_order_of_the_alphabet() {
        let granted: Vec<_> = GRANT.split(" +").skip(1).collect();
        assert!(granted.is_sorted_by(|one, next| one < next), "{granted:?}");
    }
}
