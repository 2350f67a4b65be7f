//! Waiting for a write lock held by another process.
//!
//! SQLite's own handler waits up to 100 ms between two attempts, and a busy neighbour leaves the
//! lock free for less than that. This handler tries about every millisecond, until the deadline of
//! its thread.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// Shortest and longest wait between two attempts, in microseconds. Random, so that two waiting
/// processes do not stay in step. Ten attempts cost less than one commit.
const WAIT_US: std::ops::RangeInclusive<u64> = 300..=1_500;

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// From now on this thread waits for locks until `deadline`.
pub(crate) fn wait_until(deadline: Instant) {
    DEADLINE.set(Some(deadline));
}

/// Makes `connection` use this handler.
pub(crate) fn install(connection: &mut Connection) -> rusqlite::Result<()> {
    fn try_again(_count: i32) -> bool {
        wait()
    }
    connection.busy_handler(Some(try_again as fn(i32) -> bool))
}

/// Waits a little. Returns true if another attempt makes sense.
pub(crate) fn wait() -> bool {
    thread::park_timeout(Duration::from_micros(fastrand::u64(WAIT_US)));
    DEADLINE
        .get()
        .is_some_and(|deadline| Instant::now() < deadline)
}
