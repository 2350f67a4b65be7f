//! What the tests need on this machine: redis-server, rustfmt and clippy. What only some checks
//! need is installed where that is one command, and without it those are left out: promtool for the
//! alert rules, Chromium and its driver for the web page, axe-core for its accessibility, clients
//! in other languages for the server.

use std::env::consts::OS;
use std::thread::JoinHandle;

use crate::call::{Call, Failure, root};
use crate::clients;

/// The oldest Redis that delayq runs on: its scripts use flags and functions of 7.0.
const OLDEST_REDIS: (u32, u32) = (7, 0);

const BY_HAND: &str = "install it by hand, then run this again:
  Debian, Ubuntu     sudo apt-get install redis-server
  Fedora, RHEL       sudo dnf install redis
  Arch               sudo pacman -S redis
  Alpine             sudo apk add redis
  macOS              brew install redis
  newer than your system has it: https://redis.io/docs/latest/operate/oss_and_stack/install/
or test without it: cargo xtask test --skip install (the tests that need a real Redis then fail)";

/// Installs that go on beside the build.
#[derive(Debug)]
pub(crate) struct Installs(Vec<JoinHandle<Result<(), Failure>>>);

impl Installs {
    /// Waits until all is installed.
    pub(crate) fn join(self) -> Result<(), Failure> {
        for one in self.0 {
            let broken = |_| Err(Failure("an install has panicked".to_owned()));
            one.join().unwrap_or_else(broken)?;
        }
        Ok(())
    }
}

/// Adds the components of the toolchain, and begins to install the rest: packages of the system,
/// and clients in other languages, which the build need not wait for.
pub(crate) fn begin() -> Result<Installs, Failure> {
    component("rustfmt", "cargo fmt --version")?;
    component("clippy", "cargo clippy --version")?;
    let clients = || {
        axe_core();
        clients::install();
        Ok(())
    };
    Ok(Installs(vec![
        std::thread::spawn(packages),
        std::thread::spawn(clients),
    ]))
}

/// What some checks need, and which package of Debian has it.
const OPTIONAL: [Optional; 3] = [
    Optional {
        proof: "promtool --version",
        package: "prometheus",
        without: "the checks of the alert rules",
    },
    Optional {
        proof: "chromium --version",
        package: "chromium",
        without: "the tests of the page in a browser",
    },
    Optional {
        proof: "chromedriver --version",
        package: "chromium-driver",
        without: "the tests of the page in a browser",
    },
];

struct Optional {
    proof: &'static str,
    package: &'static str,
    without: &'static str,
}

impl Optional {
    fn is_here(&self) -> bool {
        Call::new(self.proof).succeeds()
    }
}

/// Installs the packages that are missing, in one call where that is possible.
fn packages() -> Result<(), Failure> {
    let has_redis = installed_version().is_some_and(|version| version >= OLDEST_REDIS);
    let redis = (!has_redis).then_some("redis-server");
    let missing = OPTIONAL.iter().filter(|one| !one.is_here());
    let names = redis.into_iter().chain(missing.map(|one| one.package));
    let names: Vec<&str> = names.collect();
    if let Some(sudo) = apt_prefix()
        && !names.is_empty()
    {
        println!("  installing with apt-get: {}", names.join(" "));
        // What is still missing after it is told below.
        let _ = apt(sudo, &names.join(" ")).iter().all(Call::succeeds);
    }
    for one in &OPTIONAL {
        let name = one.proof.split(' ').next().unwrap_or(one.proof);
        let Optional {
            package, without, ..
        } = one;
        if one.is_here() {
            println!("  {name}: found");
        } else {
            println!(
                "  {name}: missing; {without} are left out (Debian has it in the package {package})"
            );
        }
    }
    redis_server()
}

/// The accessibility checker axe-core, which runs in the pages that it checks, at this version.
const AXE: &str = "axe-core@4.14.1";
/// Where the tests look for it.
const AXE_FOLDER: &str = "target/axe-core";

/// Fetches axe-core where npm is there; nothing fails without it.
fn axe_core() {
    let folder = root().join(AXE_FOLDER);
    let is_here = || folder.join("node_modules/axe-core/axe.min.js").is_file();
    let install = format!(
        "npm install --no-save --no-audit --no-fund --ignore-scripts --prefix {AXE_FOLDER} {AXE}"
    );
    if is_here() {
        println!("  axe-core: found");
    } else if std::fs::create_dir_all(&folder).is_ok()
        && Call::new(&install).succeeds()
        && is_here()
    {
        println!("  axe-core: installed into {AXE_FOLDER}");
    } else {
        println!("  axe-core: missing (npm installs it); the checks of accessibility are left out");
    }
}

fn component(name: &str, proof: &str) -> Result<(), Failure> {
    if Call::new(proof).succeeds() {
        println!("  {name}: found");
        return Ok(());
    }
    println!("  {name}: missing, and the checks need it: adding the toolchain component");
    let add = Call::new(&format!("rustup component add {name}"));
    add.run().map_err(|failure| {
        Failure(format!(
            "{failure}\nadd {name} to your Rust toolchain, then run this again"
        ))
    })
}

/// Installs it where it is still missing, with what its installer prints.
fn redis_server() -> Result<(), Failure> {
    match installed_version() {
        Some(version) if version >= OLDEST_REDIS => {
            println!("  redis-server: found, version {}.{}", version.0, version.1);
            return Ok(());
        }
        Some((major, minor)) => {
            println!("  redis-server: {major}.{minor} is too old, 7.0 is needed");
        }
        None => println!("  redis-server: not on PATH, and the tests start real servers"),
    }
    for call in installation()? {
        call.run()
            .map_err(|failure| Failure(format!("{failure}\n{BY_HAND}")))?;
    }
    match installed_version() {
        Some(version) if version >= OLDEST_REDIS => Ok(()),
        Some((major, minor)) => Err(Failure(format!(
            "the packages of this system have redis-server {major}.{minor}, 7.0 is needed; {BY_HAND}"
        ))),
        None => Err(Failure(format!(
            "redis-server is still not on PATH; {BY_HAND}"
        ))),
    }
}

fn installed_version() -> Option<(u32, u32)> {
    version(&Call::new("redis-server --version").output()?)
}

/// The version in `Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 ..`.
fn version(text: &str) -> Option<(u32, u32)> {
    let number = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="))?;
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The commands that install redis-server here, or what a person has to do.
fn installation() -> Result<Vec<Call>, Failure> {
    if OS == "macos" && Call::new("brew --version").succeeds() {
        println!("  installing redis with Homebrew (the tests start servers of their own)");
        return Ok(vec![Call::new("brew install redis")]);
    }
    if let Some(sudo) = apt_prefix() {
        println!(
            "  installing redis-server with apt-get. The package may start a service on port 6379,"
        );
        println!("  which the tests do not use: `systemctl disable --now redis-server` ends it.");
        return Ok(apt(sudo, "redis-server").into());
    }
    Err(Failure(format!(
        "redis-server is needed and cannot be installed from here; {BY_HAND}"
    )))
}

/// What stands before apt-get, where this user may install packages with it.
fn apt_prefix() -> Option<&'static str> {
    if OS != "linux" || !Call::new("apt-get --version").succeeds() {
        return None;
    }
    let id = Call::new("id -u").output();
    if id.is_some_and(|id| id.trim() == "0") {
        return Some("");
    }
    let may = Call::new("sudo -n true").succeeds();
    if !may {
        println!("  apt-get is here, but this is neither root nor a sudo without a password");
    }
    may.then_some("sudo -n ")
}

/// The commands that install packages of Debian, their names separated by blanks.
fn apt(sudo: &str, packages: &str) -> [Call; 2] {
    [
        Call::new(&format!("{sudo}apt-get update --quiet")),
        Call::new(&format!(
            "{sudo}env DEBIAN_FRONTEND=noninteractive \
             apt-get install --quiet --yes --no-install-recommends {packages}"
        )),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_redis_prints() {
        let text = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4";
        assert_eq!(version(text), Some((7, 0)));
        assert_eq!(version("Redis server v=8.10.0 sha=0"), Some((8, 10)));
        assert_eq!(version("command not found"), None);
        assert!(Some((6, 2)) < Some(OLDEST_REDIS) && (10, 0) > OLDEST_REDIS);
    }
}
