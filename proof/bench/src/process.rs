//! What the system tells of a process: its threads, the time that they have had on a processor, its
//! connections.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use crate::Failure;

/// How long all threads of a process that still live have run, to the microsecond and better.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration, Failure> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // One that has ended meanwhile has no file any more.
        let told = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanos += ran_ns(&told);
    }
    Ok(Duration::from_nanos(nanos))
}

/// The first of `RAN WAITED SLICES`, in nanoseconds.
fn ran_ns(schedstat: &str) -> u64 {
    let ran = schedstat.split_whitespace().next();
    ran.and_then(|ran| ran.parse().ok()).unwrap_or(0)
}

/// How many threads a process has.
pub(crate) fn threads(pid: u32) -> Result<usize, Failure> {
    Ok(fs::read_dir(format!("/proc/{pid}/task"))?.count())
}

/// How many TCP connections (IPv4) a process has to a port.
pub(crate) fn connections(pid: u32, port: u16) -> Result<usize, Failure> {
    let mut sockets = HashSet::new();
    for descriptor in fs::read_dir(format!("/proc/{pid}/fd"))? {
        // One that was closed meanwhile leads nowhere.
        let target = fs::read_link(descriptor?.path()).unwrap_or_default();
        let inode = target.to_str().and_then(|text| {
            let inode = text.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse::<u64>().ok()
        });
        sockets.extend(inode);
    }
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp"))?;
    let inodes = table.lines().filter_map(|line| inode_to(line, port));
    // The table is read in pieces, and what changes between them can show a line twice.
    let own: HashSet<u64> = inodes.filter(|inode| sockets.contains(inode)).collect();
    Ok(own.len())
}

/// The inode of an established connection to `port`, in a line of `/proc/net/tcp`.
fn inode_to(line: &str, port: u16) -> Option<u64> {
    let mut fields = line.split_whitespace().skip(2);
    let (_, to) = fields.next()?.split_once(':')?;
    let is_established = fields.next()? == "01";
    let leads_there = u16::from_str_radix(to, 16).ok()? == port && is_established;
    fields.nth(5)?.parse().ok().filter(|_| leads_there)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connections_to_a_port_are_counted_from_one_side_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let count = || connections(std::process::id(), address.port()).unwrap();
        assert_eq!(count(), 0);
        let _open = [0, 1].map(|_| TcpStream::connect(address).unwrap());
        let _accepted = listener.accept().unwrap();
        assert_eq!(count(), 2);
    }

    #[test]
    fn the_time_on_a_processor_comes_first() {
        assert_eq!(ran_ns("2500000 17 3\n"), 2_500_000);
        assert_eq!(ran_ns(""), 0);
    }

    #[test]
    fn this_process_has_threads_and_its_time_does_not_run_backwards() {
        let own = std::process::id();
        let before = cpu_time(own).unwrap();
        assert!(threads(own).unwrap() >= 1);
        let mut later = std::iter::repeat_with(|| cpu_time(own).unwrap()).take(1_000_000);
        assert!(later.any(|now| now > before));
    }
}
