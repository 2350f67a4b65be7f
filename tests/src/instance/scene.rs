//! The scene of a crash test: a store, the instances on it, and what was done to them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use delayq_core::store::StoreOptions;
use delayq_plugin::{Clock, SystemClock, TaskSubmitService, Timestamp, open_store};
use tempfile::TempDir;

use super::history::History;
use super::log::{Reader, What, stalls_beside};
use super::plan::{Plan, Served};
use super::stalls::{Stall, Stalls, between};
use super::{Instance, errors_of};
use crate::rig::until;

/// Something that was done to the instances, and explains what they did twice.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An instance was ended with SIGKILL, between these times.
    Killed {
        /// Its name.
        name: String,
        /// Before the signal.
        from: Timestamp,
        /// Once it was gone.
        to: Timestamp,
    },
    /// An instance ended abnormally by itself.
    Crashed {
        /// Its name.
        name: String,
    },
    /// An instance was stopped for longer than a lock.
    Stopped {
        /// Its name.
        name: String,
    },
    /// The store was away between these times.
    Outage {
        /// Before the signal.
        from: Timestamp,
        /// Once it answered again.
        to: Timestamp,
    },
    /// The machine served nobody between these times.
    Stalled(Stall),
}

/// A store, and the instances on it.
#[derive(Debug)]
pub struct Scene {
    /// The store.
    pub url: String,
    binary: &'static str,
    folder: TempDir,
    logs: Vec<(String, PathBuf)>,
    faults: Vec<Fault>,
    stalls: Stalls,
    seed: u64,
}

impl Scene {
    /// A scene on an `SQLite` file. `binary` is the instance's program.
    #[must_use]
    pub fn on_sqlite(binary: &'static str) -> Self {
        let mut scene = Self::on(binary, "sqlite:".to_owned());
        scene.url = format!("sqlite:{}", scene.database().display());
        scene
    }

    /// A scene on the store of this URL. Its random choices are those of the seed in `DELAYQ_SEED`,
    /// if that is set; when events fall is left to chance in any case.
    ///
    /// # Panics
    /// When there is no place for temporary files.
    #[must_use]
    pub fn on(binary: &'static str, url: String) -> Self {
        let folder = tempfile::Builder::new().prefix("delayq-crash-").tempdir();
        let seed = std::env::var("DELAYQ_SEED").ok();
        let seed = seed
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| fastrand::u64(..));
        say(&format!("DELAYQ_SEED={seed} repeats the choices on {url}"));
        let folder = folder.expect("a temporary folder can be made");
        Self {
            url,
            binary,
            stalls: Stalls::watch(folder.path()),
            folder,
            logs: Vec::new(),
            faults: Vec::new(),
            seed,
        }
    }

    /// The file of an `SQLite` scene.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.folder.path().join("tasks.sqlite")
    }

    /// The seed of all random choices.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A plan for another instance, which works for these types with locks of one second.
    pub fn plan<'a>(&self, served: impl IntoIterator<Item = &'a str>) -> Plan {
        let name = format!("i{}", self.logs.len());
        Plan {
            url: self.url.clone(),
            log: self.folder.path().join(&name).with_extension("log"),
            name,
            served: served.into_iter().map(Served::new).collect(),
            load: None,
            poll_ms: 1_000,
            single_thread: false,
            grace_ms: None,
            max_lock_expiries: 1_000,
            seed: self.seed.wrapping_add(self.logs.len() as u64),
        }
    }

    /// Starts an instance, and awaits that its plugin has.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(&mut self, plan: &Plan) -> Instance {
        let mut instance = self.spawn(plan);
        instance.nth("the start", 1, What::is_up).await;
        instance
    }

    /// Starts an instance.
    pub fn spawn(&mut self, plan: &Plan) -> Instance {
        self.logs.push((plan.name.clone(), plan.log.clone()));
        Instance::spawn(self.binary, plan)
    }

    /// Kills `instance` and notes it. Returns when it was gone.
    pub fn kill(&mut self, mut instance: Instance) -> Timestamp {
        let from = SystemClock.now();
        instance.kill();
        let (name, to) = (instance.name.clone(), SystemClock.now());
        self.faults.push(Fault::Killed { name, from, to });
        to
    }

    /// Notes what was done by other means.
    pub fn note(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// A service on the store, in the test's own process.
    ///
    /// # Panics
    /// When the store does not open.
    pub async fn service(&self) -> TaskSubmitService {
        let store = open_store(&self.url, StoreOptions::default()).await;
        TaskSubmitService::new(store.expect("the store opens"))
    }

    /// What all instances have logged so far.
    #[must_use]
    pub fn history(&self) -> History {
        let logs = self.logs.iter().map(|(name, log)| {
            let events = Reader::new(log.clone()).events().to_vec();
            (name.clone(), events)
        });
        let stalls = self.stalls().into_iter().map(Fault::Stalled);
        let faults = self.faults.iter().cloned().chain(stalls);
        History::new(logs, faults.collect())
    }

    /// The time between two moments in which the machine did not stand still, zero when the second
    /// is not later.
    #[must_use]
    pub fn between(&self, from: i64, to: i64) -> Duration {
        between(from, to, &self.stalls())
    }

    /// What this process has seen, and what each instance says of itself.
    fn stalls(&self) -> Vec<Stall> {
        let mut stalls = self.stalls.seen();
        for (_, log) in &self.logs {
            for event in Reader::new(stalls_beside(log)).events() {
                if let What::Stalled { from } = event.what {
                    let [from, to] = [from, event.at].map(Timestamp::from_millis);
                    stalls.push(Stall { from, to });
                }
            }
        }
        stalls
    }

    /// Awaits that nothing is scheduled or running, and audits every type.
    ///
    /// # Panics
    /// When something stays, or the audit finds a problem.
    pub async fn drained(&self, service: &TaskSubmitService) {
        for task_type in service.types().await.expect("the store answers") {
            until(&format!("the last task of {task_type}"), || async {
                // A busy machine may have had another fail-over by now.
                let stats = service.stats(task_type.as_str()).await.ok()?;
                (stats.scheduled + stats.running == 0).then_some(())
            })
            .await;
            let audit = until(&format!("an audit of {task_type}"), || async {
                service.audit(task_type.as_str(), false).await.ok()
            })
            .await;
            assert!(audit.problems.is_empty(), "{task_type}: {audit:?}");
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.folder.disable_cleanup(true);
        say(&format!(
            "left for a look: {}",
            self.folder.path().display()
        ));
        for (name, log) in &self.logs {
            say(&format!("what {name} said:\n{}", errors_of(log)));
        }
    }
}

/// Shown with the failure of a test.
#[allow(clippy::print_stderr, reason = "the tests' own way to say something")]
fn say(what: &str) {
    eprintln!("{what}");
}

/// Asks `SQLite` itself whether a database file is whole.
///
/// # Panics
/// When it is not.
pub fn check_file(database: &Path) {
    let file = rusqlite::Connection::open(database).expect("the file opens");
    let whole = file.query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    assert_eq!(whole.as_deref(), Ok("ok"), "{}", database.display());
}
