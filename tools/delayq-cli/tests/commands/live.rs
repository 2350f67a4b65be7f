//! Commands that run until somebody ends them: `watch` over a pipe, `top` on a pseudo-terminal, a
//! requeue at a rate.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use delayq_plugin::{DelayQueueJob, TaskType, hours};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::stage::Stage;

/// How long something may take to appear.
const PATIENCE: Duration = Duration::from_secs(20);

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).expect("it runs");
}

/// Two lines of text stood before an empty document, which came at the end.
#[test]
fn page_says_in_a_document_where_it_is() {
    let stage = Stage::sqlite();
    let mut page = stage.command(&["page", "--port", "0", "-o", "json"]);
    let mut page = page.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(page.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = said["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    interrupt(&page);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(page.wait().unwrap().success() && rest.is_empty(), "{rest}");
}

#[test]
fn watch_tells_what_happens_until_an_interrupt() {
    for stage in [Stage::sqlite(), Stage::redis()] {
        let task_type = TaskType::new("mail.send").unwrap();
        stage
            .plant(async |tasks| tasks.store().register_type(&task_type).await)
            .unwrap();
        let mut watch = stage.command(&["watch", "mail.send", "--every", "200ms"]);
        let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut watch = watch.spawn().unwrap();
        let said: ChildStderr = watch.stderr.take().unwrap();
        let first = BufReader::new(said).lines().next().unwrap().unwrap();
        assert!(first.starts_with("watching mail.send since"), "{first}");
        let output: ChildStdout = watch.stdout.take().unwrap();
        let mut lines = BufReader::new(output).lines();
        let mut next = || lines.next().expect("a line").expect("text");
        let job = || {
            DelayQueueJob::raw("mail.send", "{}")
                .id("a-1")
                .after(hours(1))
        };
        stage
            .plant(async |tasks| tasks.send(job()).await.map(drop))
            .unwrap();
        let sent = next();
        assert!(sent.contains(" sent ") && sent.contains("a-1"), "{sent}");
        stage.json(0, &["reschedule", "mail.send", "a-1", "--after", "2h"]);
        let moved = next();
        assert!(
            moved.contains(" moved ") && moved.contains("a-1"),
            "{moved}"
        );
        stage.json(0, &["cancel", "mail.send", "a-1"]);
        let cancelled = next();
        assert!(
            cancelled.contains(" cancelled ") && cancelled.contains("a-1"),
            "{cancelled}"
        );
        interrupt(&watch);
        assert_eq!(watch.wait().unwrap().code(), Some(0));
        assert!(lines.next().is_none());
    }
}

#[test]
fn an_interrupted_requeue_leaves_the_rest_dead_and_its_beginning_in_the_log() {
    let stage = Stage::sqlite();
    stage.kill(&["no van"; 3]);
    let words = [
        "dead",
        "requeue",
        "mail.send",
        "--all",
        "--rate",
        "1/min",
        "--yes",
    ];
    let mut requeue = stage.command(&words).spawn().unwrap();
    stage.plant(async |tasks| {
        while tasks.stats("mail.send").await.unwrap().dead == 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    // A shell starts what runs in its background without interrupts.
    kill_process(Pid::from_child(&requeue), Signal::TERM).expect("it runs");
    assert!(!requeue.wait().unwrap().success());
    assert_eq!(stage.json(0, &["stats", "mail.send"])["dead"], 2);
    assert_eq!(stage.log(), ["requeue all dead tasks begun"]);
}

/// A pseudo-terminal of 140 columns: what is typed into it, and what appears on it.
struct Terminal {
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    /// The terminal, and the file that a program has for it.
    fn open() -> (Self, File) {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let program = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize {
            ws_row: 30,
            ws_col: 140,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&program, size).unwrap();
        let keys = File::from(keys);
        let (sender, screen) = channel();
        let mut shown = keys.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // It fails when the program has gone.
            while let Ok(count @ 1..) = shown.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let seen = String::new();
        (Self { keys, screen, seen }, File::from(program))
    }

    /// Waits until all of these words have appeared since the call before.
    fn see(&mut self, words: &[&str]) {
        let begin = Instant::now();
        while !words.iter().all(|word| self.seen.contains(word)) {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let more = self.screen.recv_timeout(left);
            let more = more.unwrap_or_else(|_| panic!("{words:?} not in {:?}", self.seen));
            self.seen += &String::from_utf8_lossy(&more);
        }
        self.seen.clear();
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

#[test]
fn top_shows_what_is_stuck_renews_itself_and_gives_the_terminal_back() {
    let stage = Stage::sqlite();
    stage.plant(async |tasks| {
        tasks
            .send(DelayQueueJob::raw("sms.send", "{}"))
            .await
            .unwrap();
        tasks
            .send(DelayQueueJob::raw("order.cancel", "{}"))
            .await
            .unwrap();
        tasks.pause("order.cancel", None).await.unwrap();
    });
    stage.serve();
    let (mut terminal, program) = Terminal::open();
    let mut top = stage.command(&["top", "--every", "300ms"]);
    let mut top = top
        .env("TERM", "xterm-256color")
        .stdin(program.try_clone().unwrap())
        .stdout(program.try_clone().unwrap())
        .stderr(program)
        .spawn()
        .unwrap();
    terminal.see(&["sms.send", "unserved", "order.cancel", "paused", "trouble"]);
    terminal.press("s");
    terminal.see(&["scheduled"]);
    stage.kill(&["no van"]);
    terminal.see(&["mail.send", "dying"]);
    terminal.press("q");
    terminal.see(&["\u{1b}[?1049l"]);
    assert_eq!(top.wait().unwrap().code(), Some(0));
}
