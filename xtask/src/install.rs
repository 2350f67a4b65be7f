//! What the tests need on this machine: redis-server, PostgreSQL, MariaDB, rustfmt and clippy. What
//! only some checks need is installed where that is one command, and without it those are left out:
//! a pooler for PostgreSQL, promtool for the alert rules, Chromium and its driver for the web page,
//! axe-core for its accessibility, clients in other languages for the server and for PostgreSQL.

use std::env::consts::OS;
use std::thread::JoinHandle;

use crate::call::{Call, Failure, root};
use crate::clients;
use crate::server::{MARIADB, POSTGRES, REDIS, Server, with_all_folders};

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
const OPTIONAL: [Optional; 4] = [
    Optional {
        proof: "pgbouncer --version",
        package: "pgbouncer",
        without: "the tests behind a pooler",
    },
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
        with_all_folders(Call::new(self.proof)).succeeds()
    }
}

/// Installs the packages that are missing, in one call where that is possible.
fn packages() -> Result<(), Failure> {
    let servers = [REDIS, POSTGRES, MARIADB];
    let needed = servers.iter().filter(|one| !one.is_here());
    let needed = needed.map(|one| one.package);
    let missing = OPTIONAL.iter().filter(|one| !one.is_here());
    let names = needed.chain(missing.map(|one| one.package));
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
    servers.iter().try_for_each(install)
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
fn install(server: &Server) -> Result<(), Failure> {
    if server.judge() {
        return Ok(());
    }
    let by_hand = || server.by_hand();
    for call in installation(server).ok_or_else(|| Failure(by_hand()))? {
        call.run()
            .map_err(|failure| Failure(format!("{failure}\n{}", by_hand())))?;
    }
    let is_here = server.judge();
    is_here.then_some(()).ok_or_else(|| Failure(by_hand()))
}

/// The commands that install a server here, if any.
fn installation(server: &Server) -> Option<Vec<Call>> {
    let Server {
        package,
        brew,
        port,
        ..
    } = server;
    if OS == "macos" && Call::new("brew --version").succeeds() {
        println!("  installing {brew} with Homebrew (the tests start servers of their own)");
        return Some(vec![Call::new("brew install").word(*brew)]);
    }
    let sudo = apt_prefix()?;
    println!(
        "  installing {package} with apt-get. The package may start a service on port {port},"
    );
    println!("  which the tests do not use: `systemctl disable --now {package}` ends it.");
    Some(apt(sudo, package).into())
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
