//! Who is measured: delayq and its peers, each with its version.

use serde::Serialize;

use crate::peers::place::Kind;
use crate::peers::program::{Programs, Runner};

const CARGO: &str = include_str!("../../peers/Cargo.toml");
const NPM: &str = include_str!("../../peers/npm/package.json");
const GO: &str = include_str!("../../peers/go/go.mod");

/// Crates that are peers, as the program in `proof/bench/peers` calls them.
const CRATES: [&str; 4] = ["bullmq-official", "apalis-redis", "rusty-sidekiq", "oxana"];

/// One of those that are measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Contender {
    /// Its name in tables.
    pub(crate) name: String,
    pub(crate) version: String,
    /// Its name on the command line.
    #[serde(skip)]
    pub(crate) word: &'static str,
    #[serde(skip)]
    pub(crate) runner: Runner,
    #[serde(skip)]
    pub(crate) kind: Kind,
}

impl Contender {
    pub(crate) fn is_delayq(&self) -> bool {
        self.word == "delayq"
    }
}

fn contender(
    name: &str,
    version: &str,
    word: &'static str,
    runner: Runner,
    kind: Kind,
) -> Contender {
    Contender {
        name: name.to_owned(),
        version: version.to_owned(),
        word,
        runner,
        kind,
    }
}

fn delayq(kind: Kind) -> Contender {
    let ours = env!("CARGO_PKG_VERSION");
    contender("delayq", ours, "delayq", Runner::Rust, kind)
}

/// delayq first, then those that keep their tasks in PostgreSQL.
pub(crate) fn of_postgres(programs: &Programs) -> Vec<Contender> {
    let mut all = vec![delayq(Kind::Postgres)];
    if programs.has_go() {
        let version = go_version("github.com/riverqueue/river").unwrap_or("unknown");
        let (go, kind) = (Runner::Go, Kind::Postgres);
        all.push(contender("River (Go)", version, "river", go, kind));
    }
    if programs.has_node() {
        let version = quoted_version(NPM, "\"graphile-worker\"").unwrap_or("unknown");
        let (node, kind) = (Runner::Node("graphile.mjs"), Kind::Postgres);
        let name = "Graphile Worker (npm)";
        all.push(contender(name, version, "graphile", node, kind));
    }
    all
}

/// The version of a module in the lines of `require`.
fn go_version(module: &str) -> Option<&'static str> {
    let mut lines = GO.lines().map(str::split_whitespace);
    let version = lines.find_map(|mut words| (words.next() == Some(module)).then(|| words.next()));
    Some(version??.trim_start_matches('v'))
}

/// delayq first; who cannot be measured here is added to `skipped`, with what to install.
pub(crate) fn of_redis(programs: &Programs, skipped: &mut Vec<String>) -> Vec<Contender> {
    let mut all = vec![delayq(Kind::Redis)];
    for name in CRATES {
        let version = quoted_version(CARGO, name).unwrap_or("unknown");
        all.push(contender(name, version, name, Runner::Rust, Kind::Redis));
    }
    if programs.has_node() {
        let version = quoted_version(NPM, "\"bullmq\"").unwrap_or("unknown");
        all.push(contender(
            "BullMQ (npm)",
            version,
            "bullmq",
            Runner::Node("bullmq.mjs"),
            Kind::Redis,
        ));
    }
    match programs.beanstalkd() {
        Some(version) => {
            let (plain, binlog) = (Kind::Beanstalkd, Kind::BeanstalkdWithBinlog);
            let (rust, word) = (Runner::Rust, "beanstalkd");
            all.push(contender("beanstalkd", version, word, rust, plain));
            all.push(contender(
                "beanstalkd with its binlog",
                version,
                word,
                rust,
                binlog,
            ));
        }
        None => skipped.push(
            "beanstalkd: not on the PATH; `sudo apt-get install beanstalkd` installs it".to_owned(),
        ),
    }
    all
}

/// The version in the line of `name`: what stands between the last two quotation marks but for a
/// `=`.
fn quoted_version<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let line = manifest.lines().find(|line| {
        let rest = line.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', ':']))
    })?;
    let is_version = |part: &&str| {
        part.trim_start_matches('=')
            .starts_with(|c: char| c.is_ascii_digit())
    };
    let version = line.split('"').find(is_version)?;
    Some(version.trim_start_matches('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_one_version() {
        for name in CRATES {
            let version = quoted_version(CARGO, name).unwrap_or_default();
            assert_eq!(version.split('.').count(), 3, "{name}: {version}");
        }
        for name in ["\"bullmq\"", "\"graphile-worker\""] {
            assert!(quoted_version(NPM, name).is_some(), "{name}");
        }
        let version = go_version("github.com/riverqueue/river").unwrap_or_default();
        assert_eq!(version.split('.').count(), 3, "{version}");
        assert_eq!(
            quoted_version("a = { version = \"=1.2.3\", b = \"4\" }", "a"),
            Some("1.2.3")
        );
        assert_eq!(quoted_version("ab = \"=1.2.3\"", "a"), None);
    }
}
