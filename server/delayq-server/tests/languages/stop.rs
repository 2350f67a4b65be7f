//! The workers of the guide with work that takes its time, and short locks: they keep a task whose
//! work takes longer than its lock, and stop in order.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::programs::{go_variables, succeeds};
use super::server::RunningServer;
use super::{GUIDE, PATIENCE, Worker, is_there, program};

/// Within this a worker has to exit: its grace is 5 s here. A claim would wait longer.
const GRACE: Duration = Duration::from_secs(20);

/// A program of the guide. What is written over shortens its lock to 6 s and its grace to 5 s, and
/// lets its work say that it begins and take as many tenths of a second as the message says.
struct Program {
    fence: &'static str,
    part: &'static str,
    file: &'static str,
    probe: &'static str,
    build: Option<&'static [&'static str]>,
    run: &'static [&'static str],
    times: (&'static str, &'static str),
    work: (&'static str, &'static str),
}

static PROGRAMS: [Program; 5] = [
    Program {
        fence: "python",
        part: "def work",
        file: "worker.py",
        probe: "--version",
        build: None,
        run: &["python3", "worker.py"],
        times: ("LOCK, GRACE = 60, 20", "LOCK, GRACE = 6, 5"),
        work: (
            "    print(\"cancel order\"",
            "    print(\"begun\", flush=True)\n    \
             time.sleep(json.loads(task[\"message\"])[\"order\"] / 10)\n    \
             print(\"cancel order\"",
        ),
    },
    Program {
        fence: "js",
        part: "async function work",
        file: "worker.mjs",
        probe: "--version",
        build: None,
        run: &["node", "worker.mjs"],
        times: ("[lock, grace] = [60, 20]", "[lock, grace] = [6, 5]"),
        work: (
            "  console.log(\"cancel order\"",
            "  console.log(\"begun\");\n  \
             await sleep(JSON.parse(task.message).order / 10);\n  \
             console.log(\"cancel order\"",
        ),
    },
    Program {
        fence: "go",
        part: "func work",
        file: "worker.go",
        probe: "version",
        build: Some(&["go", "build", "-o", "worker", "worker.go"]),
        run: &["./worker"],
        times: (
            "= time.Minute, 20 * time.Second",
            "= 6 * time.Second, 5 * time.Second",
        ),
        work: (
            "\tfmt.Println(\"cancel order\"",
            "\tfmt.Println(\"begun\")\n\
             \ttime.Sleep(time.Duration(order.Order) * time.Second / 10)\n\
             \tfmt.Println(\"cancel order\"",
        ),
    },
    Program {
        fence: "java",
        part: "static void work",
        file: "Worker.java",
        probe: "-version",
        build: None,
        run: &["java", "Worker.java"],
        times: ("LOCK = 60, GRACE = 20", "LOCK = 6, GRACE = 5"),
        work: (
            "        System.out.println(\"cancel order ",
            "        System.out.println(\"begun\");\n        \
             Thread.sleep(100 * Long.parseLong(message.replaceAll(\"\\\\D\", \"\")));\n        \
             System.out.println(\"cancel order ",
        ),
    },
    Program {
        fence: "bash",
        part: "work()",
        file: "worker.sh",
        probe: "--version",
        build: None,
        run: &["bash", "worker.sh"],
        times: ("lock_for=60 grace=20", "lock_for=6 grace=5"),
        work: (
            "work() { echo \"cancel order",
            "work() { echo begun; sleep $(($(tr -dc 0-9 < \"$message\") / 10)); echo \"cancel order",
        ),
    },
];

/// A program in a folder of its own, and a server for it.
struct Trial<'a> {
    program: &'a Program,
    folder: tempfile::TempDir,
    server: RunningServer,
}

impl<'a> Trial<'a> {
    fn new(program: &'a Program) -> Self {
        let mut text = self::program(GUIDE, program.fence, program.part).to_owned();
        for (part, instead) in [program.times, program.work] {
            assert!(text.contains(part), "{} has no {part:?}", program.file);
            text = text.replace(part, instead);
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(program.file), text).unwrap();
        let server = RunningServer::start(folder.path());
        let trial = Self {
            program,
            folder,
            server,
        };
        if let Some(build) = program.build {
            succeeds(&mut trial.command(build));
        }
        trial
    }

    fn command(&self, words: &[&str]) -> Command {
        let (command, arguments) = words.split_first().unwrap();
        let mut command = Command::new(command);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("DELAYQ_HTTP", format!("{}/v1/default", self.server.url))
            .env("DELAYQ_TOKEN", &self.server.token)
            .env("HOME", self.folder.path())
            .envs(go_variables());
        command
    }

    fn said(&self) -> PathBuf {
        self.folder.path().join("said")
    }

    fn start(&self) -> Worker {
        let mut command = self.command(self.program.run);
        command.stdout(File::create(self.said()).unwrap());
        command.stderr(Stdio::null());
        Worker(command.process_group(0).spawn().unwrap())
    }

    /// How often the work of the worker that was started last has begun.
    fn begun(&self) -> usize {
        let said = std::fs::read_to_string(self.said()).unwrap();
        said.matches("begun").count()
    }

    /// Creates a task whose work takes so many tenths of a second, and waits until it begins.
    fn begin(&self, id: &str, tenths: u32) {
        let before = self.begun();
        self.server.put(id, &format!("{{\"order\":{tenths}}}"));
        self.wait(PATIENCE, "the work does not begin", || {
            (self.begun() > before).then_some(())
        });
    }

    fn wait<T>(&self, patience: Duration, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + patience;
        loop {
            if let Some(found) = found() {
                return found;
            }
            assert!(Instant::now() < end, "{}: {what}", self.program.file);
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Sends the signal to the worker alone, and sees that it exits with 0 in time.
    fn stop(&self, mut worker: Worker, signal: Signal) {
        kill_process(Pid::from_child(&worker.0), signal).unwrap();
        let what = format!("goes on after {signal:?}");
        let status = self.wait(GRACE, &what, || worker.0.try_wait().unwrap());
        assert_eq!(status.code(), Some(0), "{}: {status}", self.program.file);
    }

    /// A task that is done, by its first attempt.
    fn is_done_at_once(&self, id: &str) {
        self.server.wait_for(id, "done", Instant::now() + PATIENCE);
        let found = self.server.ask("GET", &format!("tasks/{id}"), "");
        assert_eq!(found["attempt"], 1, "{}: {found}", self.program.file);
    }

    /// What somebody else gets who claims meanwhile.
    fn claim(&self, wait: &str) -> Vec<Value> {
        let answer = self.server.ask("POST", &format!("claim?wait={wait}"), "");
        answer["tasks"].as_array().unwrap().clone()
    }

    fn run(&self) {
        let worker = self.start();
        self.begin("longer-than-its-lock", 90);
        let taken = self.claim("8s");
        assert!(taken.is_empty(), "{}: {taken:?}", self.program.file);
        self.is_done_at_once("longer-than-its-lock");
        assert_eq!(self.begun(), 1, "{}", self.program.file);
        self.begin("shorter-than-the-grace", 20);
        self.stop(worker, Signal::TERM);
        self.is_done_at_once("shorter-than-the-grace");

        let worker = self.start();
        self.begin("longer-than-the-grace", 600);
        self.stop(worker, Signal::TERM);
        let back = self.claim("10s");
        assert_eq!(back.len(), 1, "{}", self.program.file);
        assert_eq!(back[0]["id"], "longer-than-the-grace");
        assert_eq!(back[0]["attempt"], 1, "{}: {back:?}", self.program.file);
        assert!(back[0]["last_error"].is_null(), "{back:?}");

        let worker = self.start();
        self.begin("before-it-waits", 0);
        self.is_done_at_once("before-it-waits");
        self.stop(worker, Signal::INT);
    }
}

#[test]
fn the_workers_keep_long_tasks_and_stop_in_order() {
    let is_here = |program: &&Program| {
        let command = program.build.unwrap_or(program.run)[0];
        let is_here = is_there(command, &[program.probe]);
        if !is_here {
            eprintln!("LEFT OUT: {command} is not here");
        }
        is_here
    };
    std::thread::scope(|threads| {
        for program in PROGRAMS.iter().filter(is_here) {
            threads.spawn(move || Trial::new(program).run());
        }
    });
}
