//! What stands on the modelled disk and dies with the power: redis-server, or the processes that
//! have the `SQLite` file open.

use std::path::Path;

use delayq_plugin::millis;
use rustix::process::Signal;

use super::disk::Disk;
use super::{Args, aof};
use crate::run::{Duty, Part, Preload, Process, Result, Server, StoreKind, failure, send};

/// How long locks last: longer than a machine with a lot to do keeps a process waiting.
pub(super) const LOCK_MS: u64 = 5_000;
/// A server rewrites its file when it has doubled, from this size on: often enough that the power
/// goes meanwhile. It refuses to start on a torn file.
const SETTINGS: &[&str] = &[
    "--auto-aof-rewrite-min-size",
    "200000",
    "--aof-load-truncated",
    "no",
];
/// The same, but it cuts off the torn end.
const LOOSE_SETTINGS: &[&str] = &["--auto-aof-rewrite-min-size", "200000"];
/// Most tasks of one call: few, so that the power goes between many.
const BATCH: usize = 4;
/// How often the end of a killed process is looked for.
const LOOKS: usize = 1_000;

/// Everybody but the driver.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) workers: Vec<Process>,
    pub(super) submitters: Vec<Process>,
    /// Stands elsewhere.
    effect_log: Process,
    server: Option<Server>,
    pub(super) url: String,
    /// What the worker and the submitter are started as, and with.
    cast: [Part; 2],
    preload: Option<Preload>,
}

impl Machine {
    /// Starts those who have no store open: the effect log and a server.
    pub(super) async fn start(args: &Args, folder: &Path, disk: &Disk) -> Result<Self> {
        let server = if args.store.is_redis() {
            let sync = match args.store {
                _ if args.unsynced => "no",
                StoreKind::Redis => "always",
                _ => "everysec",
            };
            let mut server = Server::start(disk.store(), sync, Some(disk.preload())).await?;
            server.settings = if args.load_truncated {
                LOOSE_SETTINGS
            } else {
                SETTINGS
            };
            Some(server)
        } else {
            None
        };
        let url = match &server {
            Some(server) => format!("redis://127.0.0.1:{}", server.port),
            None => url_of_file(args, disk),
        };
        let part = |name: &str, duty| Part {
            name: name.to_owned(),
            incarnation: 1,
            folder: folder.to_owned(),
            url: url.clone(),
            cold: None,
            lock_ms: LOCK_MS,
            seed: args.seed,
            duty,
        };
        let mut effect_log = Process::start(part("effects", Duty::LogEffects), None)?;
        effect_log.up().await?;
        let submit = Duty::Submit {
            per_second: args.rate,
            batch: BATCH,
        };
        Ok(Self {
            workers: Vec::new(),
            submitters: Vec::new(),
            effect_log,
            cast: [part("w0", Duty::Work), part("s0", submit)],
            preload: server.is_none().then(|| disk.preload()),
            server,
            url,
        })
    }

    /// The incarnation that the worker and the submitter are in; 0: none yet.
    pub(super) fn incarnation(&self) -> u32 {
        let worker = self.workers.first();
        worker.map_or(0, |worker| worker.part.incarnation)
    }

    /// Starts again what the power loss ended.
    pub(super) fn turn_on(&mut self) -> Result<()> {
        match &mut self.server {
            Some(server) => server.spawn(),
            None => self.restart_clients(),
        }
    }

    /// Starts the worker and the submitter, or starts them again.
    pub(super) fn restart_clients(&mut self) -> Result<()> {
        if self.workers.is_empty() {
            let [work, submit] = self.cast.clone();
            self.workers = vec![Process::start(work, self.preload.clone())?];
            self.submitters = vec![Process::start(submit, self.preload.clone())?];
            return Ok(());
        }
        let mut clients = self.workers.iter_mut().chain(&mut self.submitters);
        clients.try_for_each(Process::restart)
    }

    /// Whether they die with the power.
    pub(super) fn has_clients(&self) -> bool {
        self.server.is_none()
    }

    /// Awaits that everybody is up.
    pub(super) async fn up(&mut self) -> Result<()> {
        if let Some(server) = &mut self.server {
            server.answers().await?;
        }
        for client in self.workers.iter_mut().chain(&mut self.submitters) {
            client.up().await?;
        }
        Ok(())
    }

    /// The power goes.
    pub(super) async fn turn_off(&mut self) -> Result<()> {
        let Some(server) = &mut self.server else {
            let clients = self.workers.iter_mut().chain(&mut self.submitters);
            for client in clients {
                client.kill();
            }
            return Ok(());
        };
        // Stopped first, so that it starts nobody else who would live on.
        if server.is_alive() {
            send(server.pid(), Signal::STOP)?;
        }
        let children = children(server.pid())?;
        server.kill();
        for child in children {
            // It may have ended by itself.
            let _ = send(child, Signal::KILL);
            gone(child).await?;
        }
        Ok(())
    }

    /// Whether the server has refused to start on what the power loss left, and has been helped.
    pub(super) fn repair(&mut self, disk: &Disk) -> Result<bool> {
        let Some(server) = self.server.as_mut() else {
            return Ok(false);
        };
        Ok(!server.is_alive() && aof::repair(&disk.store(), server.sync)?)
    }

    /// Ends the effect log.
    pub(super) fn dismiss(&mut self) {
        self.effect_log.kill();
    }
}

/// A file in a folder that delayq has to make.
fn url_of_file(args: &Args, disk: &Disk) -> String {
    let sync = if args.unsynced { "normal" } else { "full" };
    let file = disk.store().join("tasks/tasks.sqlite");
    format!("sqlite:{}?sync={sync}", file.display())
}

/// The processes that `parent` has started.
fn children(parent: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if stat(pid).is_some_and(|(_, its_parent)| its_parent == parent) {
            children.push(pid);
        }
    }
    Ok(children)
}

/// The state of a process, and who has started it; `None`: there is none.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit(") ").next()?.split(' ');
    let state = words.next()?.chars().next()?;
    Some((state, words.next()?.parse().ok()?))
}

async fn gone(pid: u32) -> Result<()> {
    for _ in 0..LOOKS {
        if stat(pid).is_none_or(|(state, _)| state == 'Z') {
            return Ok(());
        }
        tokio::time::sleep(millis(1)).await;
    }
    failure(format!("the process {pid} does not end"))
}
