//! The test programs of the workspace: built in one call of cargo, then several run beside each
//! other, as most of their tests wait for a lock, a fail-over or a poll.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::call::{Call, Failure};
use crate::failures::Failures;
use crate::left_out::LeftOut;
use crate::table::Table;

/// Programs that run at the same time; `.cargo/config.toml` says how many tests of each.
const ABREAST: usize = 2;
/// After so long without the end of a program, those that run are named.
const SILENCE: Duration = Duration::from_mins(1);
/// Lines of the table of the slowest programs.
const SLOWEST: usize = 10;

/// Programs that take long, the longest first: started late they would run alone at the end.
const LONG: [&str; 10] = [
    "delayq-scenarios suite",
    "delayq-server lib",
    "delayq-tests contract",
    "delayq-ui-tests compiler",
    "delayq-tests redis_store",
    "delayq-tests multi_server",
    "delayq-tests model",
    "delayq-admin browser",
    "delayq-server languages",
    "delayq-tests faults",
];

/// One test program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    /// Package and target, as `cargo test -p PACKAGE` takes them.
    package: String,
    target: String,
    file: PathBuf,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
}

impl Program {
    fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// How a person runs it alone.
    fn repeat(&self) -> String {
        let target = match self.target.as_str() {
            "lib" => "--lib".to_owned(),
            // Of a program or an example, whose kind stands in front.
            target if target.contains(' ') => format!("--{target}"),
            target => format!("--test {target}"),
        };
        format!("cargo test --locked -p {} {target}", self.package)
    }

    /// The place in the order of starts.
    fn rank(&self) -> usize {
        let name = self.name();
        let place = LONG.iter().position(|long| *long == name);
        place.unwrap_or(LONG.len())
    }

    fn run(&self) -> Ended {
        let started = Instant::now();
        let mut command = Command::new(&self.file);
        command
            .arg("--show-output")
            .current_dir(&self.folder)
            .env("CARGO", env!("CARGO"))
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", &self.package)
            .stdin(Stdio::null());
        let (passed, output) = match command.output() {
            Ok(output) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let said = text(&output.stdout) + &text(&output.stderr);
                (output.status.success(), said)
            }
            Err(error) => (false, format!("cannot be run: {error}")),
        };
        Ended {
            program: self.clone(),
            passed,
            output,
            took: started.elapsed(),
        }
    }
}

/// What became of a program.
#[derive(Debug)]
struct Ended {
    program: Program,
    passed: bool,
    output: String,
    took: Duration,
}

impl Ended {
    /// The line of the test harness, such as `test result: ok. 12 passed; 0 failed; ..`.
    fn result(&self) -> &str {
        let mut lines = self.output.lines().rev();
        let found = lines.find(|line| line.starts_with("test result: "));
        found.unwrap_or("test result: FAILED. It ended before its tests did")
    }

    /// How many tests the harness counts with this word.
    fn count(&self, word: &str) -> u64 {
        let mut words = self.result().split([' ', ';']).rev();
        words.find(|found| *found == word);
        words
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
    }

    /// Prints its result, and what failed.
    fn say(&self) {
        let (name, seconds) = (self.program.name(), self.took.as_secs_f64());
        println!("{}  [{name} {seconds:.1} s]", self.result());
        if !self.passed {
            println!("{}", self.why());
        }
    }

    /// What failed, or the end of an output that tells of no test.
    fn why(&self) -> String {
        let mut failures = Failures::default();
        self.output.lines().for_each(|line| failures.hear(line));
        let text = failures.text();
        if !text.is_empty() {
            return text;
        }
        let lines: Vec<&str> = self.output.lines().collect();
        let end = lines.len().saturating_sub(60);
        lines.get(end..).unwrap_or_default().join("\n") + "\n"
    }
}

/// All test programs, in the order of their starts.
#[derive(Debug)]
pub(crate) struct Programs(Vec<Program>);

impl Programs {
    /// Builds them, and what they start as processes.
    pub(crate) fn build() -> Result<Self, Failure> {
        let started = Instant::now();
        let mut programs = build_call().lines(program)?;
        programs.sort_by_key(|program| (program.rank(), program.name()));
        println!("  built after {:.1} s", started.elapsed().as_secs_f64());
        Ok(Self(programs))
    }

    /// Runs them.
    pub(crate) fn run(self, left_out: &mut LeftOut) -> Result<(), Failure> {
        println!("  {} programs, {ABREAST} at a time", self.0.len());
        let started = Instant::now();
        let ended = run_all(self.0);
        println!("  run after {:.1} s", started.elapsed().as_secs_f64());
        for one in &ended {
            left_out.hear(&one.output);
        }
        report(ended)
    }
}

/// The call that builds every program, and those that tests start as processes.
fn build_call() -> Call {
    let call = Call::new(
        "cargo build --locked --workspace --profile test --bins --examples --tests \
         --message-format=json-render-diagnostics",
    );
    // Its C library takes minutes to build, which a person who changes something else can spare.
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        return call.word("--features").word("delayq-server/kafka");
    }
    call
}

/// The test program that a message of cargo tells of.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    let file = message.get("executable")?.as_str().filter(|_| is_test)?;
    let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?;
    let kind = message.pointer("/target/kind/0")?.as_str()?;
    let target = message.pointer("/target/name")?.as_str()?;
    Some(Program {
        package: package(message.get("package_id")?.as_str()?)?,
        target: match kind {
            "test" => target.to_owned(),
            "bin" | "example" => format!("{kind} {target}"),
            _ => "lib".to_owned(),
        },
        file: PathBuf::from(file),
        folder: folder.to_owned(),
    })
}

/// The name in `path+file:///folder#name@0.1.0`, or in `path+file:///name#0.1.0`.
fn package(id: &str) -> Option<String> {
    let (path, end) = id.rsplit_once('#')?;
    let name = match end.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next()?,
    };
    Some(name.to_owned())
}

/// Runs the programs in this order, and prints a line when one ends.
fn run_all(programs: Vec<Program>) -> Vec<Ended> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let running = Mutex::new(BTreeMap::new());
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..ABREAST {
            let tell = tell.clone();
            let (waiting, running) = (&waiting, &running);
            scope.spawn(move || {
                while let Some(program) = next(waiting) {
                    locked(running).insert(program.name(), Instant::now());
                    let ended = program.run();
                    locked(running).remove(&program.name());
                    // Whoever listens does so until all have ended.
                    let _ = tell.send(ended);
                }
            });
        }
        drop(tell);
        let mut all = Vec::new();
        loop {
            match told.recv_timeout(SILENCE) {
                Ok(ended) => {
                    ended.say();
                    all.push(ended);
                }
                Err(RecvTimeoutError::Timeout) => say_running(&running),
                Err(RecvTimeoutError::Disconnected) => return all,
            }
        }
    })
}

fn next(waiting: &Mutex<VecDeque<Program>>) -> Option<Program> {
    locked(waiting).pop_front()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say_running(running: &Mutex<BTreeMap<String, Instant>>) {
    for (name, since) in locked(running).iter() {
        println!("  {name} runs since {} s", since.elapsed().as_secs());
    }
}

/// Prints the slowest programs, the number of tests, and what failed.
fn report(mut ended: Vec<Ended>) -> Result<(), Failure> {
    ended.sort_by_key(|one| std::cmp::Reverse(one.took));
    let mut table = Table::of("slowest programs");
    for one in ended.iter().take(SLOWEST) {
        table.add(&one.program.name(), "", one.took);
    }
    table.print_lines();
    let sum = |word| ended.iter().map(|one| one.count(word)).sum::<u64>();
    println!(
        "\ntests: {} passed, {} failed",
        sum("passed"),
        sum("failed")
    );
    let failed = ended.iter().filter(|one| !one.passed);
    let lines: Vec<String> = failed.map(|one| one.program.repeat()).collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(Failure(format!(
        "{} programs failed, each as shown above; to repeat them:\n  {}",
        lines.len(),
        lines.join("\n  ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"reason":"compiler-artifact",
        "package_id":"path+file:///home/me/delayq/tests#delayq-tests@0.1.0",
        "manifest_path":"/home/me/delayq/tests/Cargo.toml",
        "target":{"kind":["test"],"name":"contract"},
        "profile":{"test":true},"executable":"/target/debug/deps/contract-1"}"#;

    #[test]
    fn a_program_is_known_by_the_message_that_it_is_built() {
        let program = program(MESSAGE).unwrap();
        assert_eq!(program.name(), "delayq-tests contract");
        assert_eq!(program.folder, Path::new("/home/me/delayq/tests"));
        assert_eq!(
            program.repeat(),
            "cargo test --locked -p delayq-tests --test contract"
        );
        assert!(program.rank() < LONG.len());
        assert_eq!(super::program(&MESSAGE.replace("true", "false")), None);
        assert_eq!(super::program("   Compiling x"), None);
        assert_eq!(package("path+file:///delayq/xtask#0.1.0").unwrap(), "xtask");
    }

    #[test]
    fn the_end_of_a_program_is_told_with_its_counts_and_what_failed() {
        let mut ended = Ended {
            program: program(MESSAGE).unwrap(),
            passed: false,
            output: "failures:\nit is 3\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n"
                .to_owned(),
            took: Duration::ZERO,
        };
        assert_eq!((ended.count("passed"), ended.count("failed")), (1, 2));
        assert!(ended.why().contains("it is 3"));
        ended.output = "memory allocation of 7 bytes failed".to_owned();
        assert!(ended.why().contains("memory allocation"));
        assert!(ended.result().contains("FAILED"));
        let failure = report(vec![ended]).unwrap_err().0;
        assert!(
            failure.contains("to repeat them:\n  cargo test"),
            "{failure}"
        );
    }
}
