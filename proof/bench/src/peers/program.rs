//! The programs that do the cases: built from `proof/bench/peers`, run one process a case and
//! round.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use tokio::time::timeout;

use crate::Failure;
use crate::peers::case::{Case, Scale};
use crate::peers::contender::Contender;
use crate::peers::outcome::Outcome;
use crate::peers::place::Place;

/// What the peer for Node.js is made of.
const NODE_FILES: [&str; 3] = ["package.json", "package-lock.json", "bullmq.mjs"];
const NO_NODE: &str = "BullMQ (npm): it needs node and npm on the PATH, version 20 or newer: \
    `sudo apt-get install nodejs npm`, or https://nodejs.org";

/// Which program does a contender's cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Rust,
    Node,
}

/// The programs, ready to be run.
#[derive(Debug)]
pub(crate) struct Programs {
    rust: PathBuf,
    /// The script; `None` when it cannot be run here.
    node: Option<PathBuf>,
    /// The version of the one that is installed.
    beanstalkd: Option<String>,
}

impl Programs {
    /// Builds what is in `proof/bench/peers`; beside it, who is left out, and what to install.
    pub(crate) async fn build() -> Result<(Self, Vec<String>), Failure> {
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
        let node = match node_script(&source.join("npm"), &target.join("npm")).await {
            Ok(script) => Some(script),
            Err(failure) => {
                skipped.push(format!("{NO_NODE} ({failure})"));
                None
            }
        };
        let rust = target.join("release/delayq-bench-peers");
        let beanstalkd = beanstalkd_version().await;
        Ok((
            Self {
                rust,
                node,
                beanstalkd,
            },
            skipped,
        ))
    }

    pub(crate) fn has_node(&self) -> bool {
        self.node.is_some()
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
        let mut command = self.command(contender.runner)?;
        command.arg(contender.word).args(case.words(scale));
        command.args(["--url", &place.url(), "--pid", &place.pid()?.to_string()]);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let patience = Case::patience(scale);
        let ended = timeout(patience, command.output()).await;
        place.end().await?;
        let Ok(output) = ended else {
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
            Runner::Node => {
                let mut node = Command::new("node");
                node.arg(self.node.as_ref().ok_or(NO_NODE)?);
                Ok(node)
            }
        }
    }
}

/// Installs the npm package in the target folder, so that nothing of it stands among the sources.
async fn node_script(source: &Path, target: &Path) -> Result<PathBuf, Failure> {
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
    Ok(target.join("bullmq.mjs"))
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
