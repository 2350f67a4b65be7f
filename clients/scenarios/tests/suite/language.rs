//! All sentences with the driver of one language.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::driver::Driver;
use crate::scenario::Scenario;
use crate::server::Server;
use crate::stage::Stage;

/// Scenarios that run at the same time: they wait most of the time.
const ABREAST: usize = 8;
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// How a driver's `build` says that its toolchain is not here.
const IS_MISSING: i32 = 75;

/// A language, and the program that is its driver.
#[derive(Debug)]
pub(crate) struct Language {
    name: String,
    program: PathBuf,
    patience: Duration,
}

impl Language {
    /// With a driver that is there.
    pub(crate) fn new(name: &str, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            program: program.into(),
            patience: PATIENCE,
        }
    }

    /// With less patience, for a driver that is broken.
    pub(crate) fn impatient(mut self) -> Self {
        self.patience = Duration::from_secs(8);
        self
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Builds the driver of `clients/NAME`; `None`, and a line, where that cannot be done here.
    pub(crate) fn build(name: &str) -> Option<Self> {
        let clients = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("it is in clients");
        // Clients at another place, to try them.
        let clients = std::env::var_os("DELAYQ_CLIENTS").map_or(clients.into(), PathBuf::from);
        let folder = clients.join(name).join("driver");
        let build = folder.join("build");
        if !build.is_file() {
            eprintln!("LEFT OUT: clients/{name}/driver/build is not here");
            return None;
        }
        let output = Command::new(&build).stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", build.display()));
        let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
        if output.status.code() == Some(IS_MISSING) {
            let why = err.lines().last().unwrap_or("its toolchain is not here");
            eprintln!("LEFT OUT: the client in {name}: {why}");
            return None;
        }
        assert!(
            output.status.success(),
            "{}: {}\n{out}{err}",
            build.display(),
            output.status
        );
        Some(Self::new(name, folder.join("run")))
    }

    /// Runs the sentences, and fails with those that do not hold.
    pub(crate) fn holds(&self, scenarios: Vec<Scenario>) {
        let failed = self.failures(scenarios);
        let mut text = String::new();
        for (name, why) in &failed {
            write!(text, "\n== {}: {name}\n{why}", self.name).expect("a text can be written");
        }
        assert!(
            failed.is_empty(),
            "{} sentences do not hold:\n{text}",
            failed.len()
        );
    }

    /// The sentences that do not hold, each with the reason and a transcript.
    pub(crate) fn failures(&self, scenarios: Vec<Scenario>) -> Vec<(String, String)> {
        let (mut left_out, mut queue) = (0, VecDeque::new());
        for scenario in scenarios {
            match scenario.not_for.get(&self.name) {
                Some(reason) => {
                    println!("{}: not for it, {reason}: {}", self.name, scenario.name);
                    left_out += 1;
                }
                None => queue.push_back((queue.len(), scenario)),
            }
        }
        let number = queue.len();
        let shared = Mutex::new(Server::new().expect("a server starts"));
        let (queue, failed, idle) = (Mutex::new(queue), Mutex::new(Vec::new()), Mutex::default());
        std::thread::scope(|threads| {
            for _ in 0..ABREAST.min(number) {
                threads.spawn(|| {
                    while let Some((index, scenario)) = next(&queue) {
                        let result = self.run(index, &scenario, &shared, &idle);
                        if let Err(why) = result {
                            locked(&failed).push((scenario.name, why));
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let held = number - failed.len();
        println!(
            "{}: {held} of {number} sentences hold, {left_out} not for it",
            self.name
        );
        failed
    }

    fn run(
        &self,
        index: usize,
        scenario: &Scenario,
        shared: &Mutex<Server>,
        idle: &Mutex<Vec<Driver>>,
    ) -> Result<(), String> {
        let began = Instant::now();
        let own = if scenario.needs_a_server() {
            Some(Mutex::new(Server::new()?))
        } else {
            None
        };
        let mut stage = Stage::new(self, own.as_ref().unwrap_or(shared), format!("s{index}."));
        let makes_app = scenario.makers().iter().any(|driver| driver == "app");
        if own.is_none()
            && !makes_app
            && let Some(driver) = locked(idle).pop()
        {
            stage.adopt(driver);
        }
        let result = stage.run(scenario);
        let seconds = began.elapsed().as_secs_f64();
        let verdict = if result.is_ok() { "holds" } else { "FAILS" };
        println!("{} {verdict} {seconds:5.1} s  {}", self.name, scenario.name);
        result.map_err(|why| format!("{why}\n  transcript:\n{}", stage.transcript()))?;
        if own.is_none()
            && let Some(driver) = stage.leave()
        {
            locked(idle).push(driver);
        }
        Ok(())
    }
}

/// A function of its own, so that the queue is free while the scenario runs.
fn next<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    locked(queue).pop_front()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
