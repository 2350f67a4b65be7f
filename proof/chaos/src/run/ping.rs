//! A server that the machine does not run: seen by a thread of the driver that does nothing but ask
//! it.

use std::fs::read_to_string;
use std::io;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

use delayq_plugin::{millis, seconds};
use redis::InfoDict;

use super::failure::{Failure, Result};
use crate::event::What;
use crate::record::{LATE, Recorder, in_ns, monotonic_ns};

/// How often it is asked.
const PAUSE: Duration = millis(20);
/// How long an answer may take: longer than any fault that stops a server.
const PATIENCE: Duration = seconds(60);

/// From now on records when the server behind `port` answers late although it is not at work: it,
/// or the way to it, was not run, or it waits for its disk. Work of its own that takes long is not
/// recorded.
pub(super) fn watch(recorder: &Recorder, port: u16) -> io::Result<()> {
    let recorder = recorder.clone();
    let thread = Builder::new().name("chaos-ping".to_owned());
    let thread = thread.spawn(move || {
        let (_silent, nothing) = channel::<()>();
        loop {
            // Faults cut the connection, and the server goes and comes.
            let _ = ask(&recorder, port);
            // A time-out is all that can come.
            let _ = nothing.recv_timeout(PAUSE);
        }
    });
    thread.map(drop)
}

/// Asks on one connection until that fails.
fn ask(recorder: &Recorder, port: u16) -> Result<()> {
    let (_silent, nothing) = channel::<()>();
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut connection = client.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let about: InfoDict = redis::cmd("INFO").arg("server").query(&mut connection)?;
    let pid: Option<u32> = about.get("process_id");
    let pid = pid.ok_or_else(|| Failure("INFO names no process".to_owned()))?;
    loop {
        let (since_ns, busy_before) = (monotonic_ns(), busy_ns(pid)?);
        redis::cmd("PING").exec(&mut connection)?;
        let now = monotonic_ns();
        if is_stall(now - since_ns, busy_ns(pid)? - busy_before) {
            recorder.record_at(now, What::StoreStalled { since_ns });
        }
        let _ = nothing.recv_timeout(PAUSE);
    }
}

/// Whether an answer that took so long was late, and not for the server's own work.
fn is_stall(took_ns: u64, busy_ns: u64) -> bool {
    took_ns > in_ns(LATE) && busy_ns < took_ns / 2
}

/// For how long the main thread of a process has run; the kernel's "sched-stats.rst" names the
/// fields.
fn busy_ns(pid: u32) -> Result<u64> {
    let text = read_to_string(format!("/proc/{pid}/schedstat"))?;
    let first = text.split_whitespace().next().unwrap_or_default();
    Ok(first.parse()?)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use delayq_tests::redis_server::{Persistence, RedisServer};

    use super::*;

    #[test]
    fn a_server_that_answers_nobody_and_does_nothing_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::open(folder.path(), "driver", 1, "default").unwrap();
        let server = RedisServer::start(Persistence::None, &[]);
        watch(&recorder, server.port()).unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let span_ms = (LATE * 2).as_millis().to_string();
        let begun = Instant::now();
        let has_stalled = || {
            let record = read_to_string(folder.path().join("driver.1.jsonl")).unwrap();
            record.contains("store_stalled")
        };
        while !has_stalled() {
            assert!(begun.elapsed() < PATIENCE, "nothing was recorded");
            let mut pause = redis::cmd("CLIENT");
            pause.arg(&["PAUSE", &span_ms, "ALL"]);
            pause.exec(&mut connection).unwrap();
            // Answered when it is over.
            redis::cmd("PING").exec(&mut connection).unwrap();
        }
    }

    #[test]
    fn work_of_its_own_is_no_allowance_for_a_server() {
        let late = in_ns(LATE);
        assert!(is_stall(late + 1, 0) && is_stall(late * 10, late * 4));
        assert!(!is_stall(late, 0), "in time");
        assert!(!is_stall(late * 10, late * 5), "at work");
    }
}
