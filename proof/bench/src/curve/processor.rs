//! What Linux tells of a process: its time on processors, and its threads.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::Failure;

/// What share of one processor each of the processes takes in the next `span`; 1 is all of one.
/// Threads that end meanwhile are left out.
pub(crate) async fn shares<const N: usize>(
    pids: [u32; N],
    span: Duration,
) -> Result<[f64; N], Failure> {
    let before = busy(pids)?;
    let started = Instant::now();
    sleep(span).await;
    let (after, elapsed) = (busy(pids)?, started.elapsed());
    let mut shares = [0.0; N];
    for (share, (before, after)) in shares.iter_mut().zip(before.into_iter().zip(after)) {
        *share = after.saturating_sub(before).as_secs_f64() / elapsed.as_secs_f64();
    }
    Ok(shares)
}

/// The threads of a process.
pub(crate) fn threads(pid: u32) -> Result<usize, Failure> {
    Ok(tasks(pid)?.len())
}

fn busy<const N: usize>(pids: [u32; N]) -> Result<[Duration; N], Failure> {
    let mut times = [Duration::ZERO; N];
    for (time, pid) in times.iter_mut().zip(pids) {
        for task in tasks(pid)? {
            // A thread that has ended since has nothing more to tell.
            let told = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            *time += time_on_processor(&told).unwrap_or_default();
        }
    }
    Ok(times)
}

/// The first number of a `schedstat`, in ns.
fn time_on_processor(schedstat: &str) -> Option<Duration> {
    let nanos = schedstat.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn tasks(pid: u32) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_on_a_processor_is_the_first_number() {
        let time = time_on_processor("1500000 77 3\n");
        assert_eq!(time, Some(Duration::from_micros(1_500)));
        assert_eq!(time_on_processor(""), None);
    }

    #[test]
    fn this_process_has_threads_and_was_busy() {
        let pid = std::process::id();
        assert!(threads(pid).unwrap() >= 1);
        assert!(busy([pid]).unwrap()[0] > Duration::ZERO);
    }
}
