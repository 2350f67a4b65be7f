//! The programs that do the cases: built from `proof/bench/peers`, run one process a case and
//! round.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::Failure;
use crate::peers::Field;
use crate::peers::case::{Case, Scale};
use crate::peers::contender::Contender;
use crate::peers::outcome::Outcome;
use crate::peers::place::Place;

/// What the peers for Node.js are made of.
const NODE_FILES: [&str; 5] = [
    "package.json",
    "package-lock.json",
    "bench.mjs",
    "bullmq.mjs",
    "graphile.mjs",
];
const NO_NODE: &str = "BullMQ and Graphile Worker (npm): they need node and npm on the PATH, \
    version 20 or newer: `sudo apt-get install nodejs npm`, or https://nodejs.org";
const NO_GO: &str = "River (Go): it needs go on the PATH, version 1.26 or newer: https://go.dev";

/// Which program does a contender's cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Rust,
    /// This script.
    Node(&'static str),
    Go,
}

/// The programs, ready to be run.
#[derive(Debug)]
pub(crate) struct Programs {
    rust: PathBuf,
    /// The folder of the scripts; `None` when they cannot be run here.
    node: Option<PathBuf>,
    /// `None` when it cannot be built here.
    go: Option<PathBuf>,
    /// The version of the one that is installed.
    beanstalkd: Option<String>,
}

impl Programs {
    /// Builds what is in `proof/bench/peers` for a field; beside it, who is left out, and what to
    /// install.
    pub(crate) async fn build(field: Field) -> Result<(Self, Vec<String>), Failure> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
        let mut cargo = Command::new("cargo");
        // Not --locked: the lock file follows delayq's own dependencies, which change without it.
        cargo
            .args(["build", "--release", "--manifest-path"])
            .arg(source.join("Cargo.toml"));
        cargo.arg("--target-dir").arg(&target);
        without_this_package(&mut cargo);
        println!("building the peers: proof/bench/peers");
        succeed(cargo, "cargo build of proof/bench/peers").await?;
        let mut skipped = Vec::new();
        let node = match node_scripts(&source.join("npm"), &target.join("npm")).await {
            Ok(scripts) => Some(scripts),
            Err(failure) => {
                skipped.push(format!("{NO_NODE} ({failure})"));
                None
            }
        };
        let rust = target.join("release/delayq-bench-peers");
        let (mut go, mut beanstalkd) = (None, None);
        match field {
            Field::Redis => beanstalkd = beanstalkd_version().await,
            Field::Postgres => match go_program(&source.join("go"), &target).await {
                Ok(program) => go = Some(program),
                Err(failure) => skipped.push(format!("{NO_GO} ({failure})")),
            },
        }
        Ok((
            Self {
                rust,
                node,
                go,
                beanstalkd,
            },
            skipped,
        ))
    }

    pub(crate) fn has_node(&self) -> bool {
        self.node.is_some()
    }

    pub(crate) fn has_go(&self) -> bool {
        self.go.is_some()
    }

    pub(crate) fn beanstalkd(&self) -> Option<&str> {
        self.beanstalkd.as_deref()
    }

    /// Does the case once, on a server that is started for it.
    pub(crate) async fn run(
        &self,
        contender: &Contender,
        case: Case,
        scale: &Scale,
    ) -> Result<Outcome, Failure> {
        let place = Place::start(contender.kind).await?;
        let outcome = self.run_on(&place, contender, case, scale).await;
        place.end().await?;
        outcome
    }

    async fn run_on(
        &self,
        place: &Place,
        contender: &Contender,
        case: Case,
        scale: &Scale,
    ) -> Result<Outcome, Failure> {
        let patience = Case::patience(scale);
        if !case.is_counted() {
            return self
                .outcome(place, contender, &case.words(scale), patience)
                .await;
        }
        // Tables are made by a process before, so that they are no task's.
        let prepare = ["prepare", "--count", "1"].map(str::to_owned);
        let prepared = self.outcome(place, contender, &prepare, patience).await?;
        if prepared.number().is_none() {
            return Ok(prepared);
        }
        let [wal, commits] = place.counted().await?;
        let outcome = self
            .outcome(place, contender, &case.words(scale), patience)
            .await?;
        if outcome.number().is_none() {
            return Ok(outcome);
        }
        let [wal_after, commits_after] = place.counted().await?;
        let counted = case.counted(scale, [wal_after - wal, commits_after - commits]);
        Ok(counted.map_or(outcome, Outcome::Each))
    }

    async fn outcome(
        &self,
        place: &Place,
        contender: &Contender,
        words: &[String],
        patience: Duration,
    ) -> Result<Outcome, Failure> {
        let mut command = self.command(contender.runner)?;
        command.arg(contender.word).args(words);
        command.args(["--url", &place.url(), "--pid", &place.pid()?.to_string()]);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let Ok(output) = timeout(patience, command.output()).await else {
            return Ok(Outcome::Failed(format!("no end within {patience:?}")));
        };
        let output = output?;
        if let Some(outcome) = Outcome::of(&String::from_utf8_lossy(&output.stdout)) {
            return Ok(outcome);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or("nothing on stderr");
        Ok(Outcome::Failed(format!("{}: {last}", output.status)))
    }

    fn command(&self, runner: Runner) -> Result<Command, Failure> {
        match runner {
            Runner::Rust => Ok(Command::new(&self.rust)),
            Runner::Node(script) => {
                let mut node = Command::new("node");
                node.arg(self.node.as_ref().ok_or(NO_NODE)?.join(script));
                Ok(node)
            }
            Runner::Go => Ok(Command::new(self.go.as_ref().ok_or(NO_GO)?)),
        }
    }
}

/// Builds the program of River.
async fn go_program(source: &Path, target: &Path) -> Result<PathBuf, Failure> {
    let program = std::path::absolute(target)?.join("river");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".");
    go.current_dir(source);
    succeed(go, "go build of proof/bench/peers/go").await?;
    Ok(program)
}

/// Installs the npm packages in the target folder, so that nothing of them stands among the
/// sources.
async fn node_scripts(source: &Path, target: &Path) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(target)?;
    for file in NODE_FILES {
        std::fs::copy(source.join(file), target.join(file))?;
    }
    // Not `npm ci`: it refuses a lock file that lacks an optional package of another system.
    let mut install = Command::new("npm");
    install.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"]);
    install.current_dir(target);
    install.stdout(Stdio::null()).stderr(Stdio::null());
    succeed(install, "npm install").await?;
    let mut node = Command::new("node");
    node.arg("--version").stdout(Stdio::null());
    succeed(node, "node --version").await?;
    Ok(target.to_owned())
}

/// The version in `beanstalkd 1.12`. Where it is missing, and this is root on a Debian, it is
/// installed.
async fn beanstalkd_version() -> Option<String> {
    if let Some(version) = printed_version().await {
        return Some(version);
    }
    let mut install = Command::new("apt-get");
    install
        .args(["install", "-y", "beanstalkd"])
        .stdin(Stdio::null());
    install.stdout(Stdio::null()).stderr(Stdio::null());
    let is_root = printed("id", "-u").await.is_some_and(|id| id.trim() == "0");
    if is_root && succeed(install, "apt-get install beanstalkd").await.is_ok() {
        return printed_version().await;
    }
    None
}

async fn printed_version() -> Option<String> {
    let text = printed("beanstalkd", "-v").await?;
    text.split_whitespace().nth(1).map(str::to_owned)
}

/// What a program prints; `None` when it cannot be run.
async fn printed(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().await.ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn succeed(mut command: Command, what: &str) -> Result<(), Failure> {
    let status = command.stdin(Stdio::null()).status().await;
    let status = status.map_err(|error| format!("{what}: {error}"))?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| format!("{what} failed: {status}").into())
}

/// Build scripts that look at these variables would be built anew whenever cargo is called from
/// here.
fn without_this_package(cargo: &mut Command) {
    let is_ours = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        cargo.env_remove(name);
    }
}
