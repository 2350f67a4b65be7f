//! Reserve: disk space for draining a full store.
//!
//! Claims, settlements and removals append to the log, so on a full disk they would fail like a
//! submit. A file beside the database reserves space for them. When one of them finds the disk
//! full, the file is deleted, which frees that space. New tasks are refused until the file can be
//! created again.

use std::cell::Cell;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::file::{beside, private};

/// The smallest reserve: a few hundred transactions.
const LEAST: u64 = 2 << 20;

/// The largest reserve: the growth of the file by a checkpoint of a whole log (16 MiB), and some
/// space for the log.
const MOST: u64 = 20 << 20;

/// Space that has to be left after the reserve is created, so that a store at the limit does not
/// create and delete it in turn.
const MARGIN: u64 = 1 << 20;

/// Pause after a failed attempt to create it: an attempt takes the last space of the disk for a
/// moment, also from other programs.
const PAUSE: Duration = Duration::from_secs(5);

/// Bytes written at a time.
const CHUNK: usize = 64 << 10;

/// The reserve of one database file. Several processes share it.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// The store's name in the log.
    store: String,
    path: PathBuf,
    failed: Cell<Option<Instant>>,
}

/// The size of the reserve for a database that takes up `bytes`, including its log: a checkpoint
/// cannot add more than that to the file.
fn wanted(bytes: u64) -> u64 {
    bytes.next_power_of_two().clamp(LEAST, MOST)
}

/// The free space required on the disk to create a reserve.
pub(crate) fn needed(bytes: u64) -> u64 {
    wanted(bytes) + MARGIN
}

impl Reserve {
    /// The reserve of the database at `path`, whether it exists or not.
    pub(crate) fn new(store: &str, path: &Path) -> Self {
        // It is beside the file itself, like the log, and not beside a link to it.
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Self {
            store: store.to_owned(),
            path: beside(&real, "-reserve"),
            failed: Cell::new(None),
        }
    }

    /// True if it is as large as [`wanted`]. Creates or extends it if there is room.
    pub(crate) fn is_ready(&self, bytes: u64) -> bool {
        let wanted = wanted(bytes);
        let found = fs::metadata(&self.path).map_or(0, |file| file.len());
        found >= wanted || (self.may_try() && self.make(found, wanted))
    }

    fn may_try(&self) -> bool {
        let failed = self.failed.get();
        failed.is_none_or(|failed| failed.elapsed() >= PAUSE)
    }

    fn make(&self, found: u64, wanted: u64) -> bool {
        let made = self.extend(wanted);
        if let Err(error) = &made {
            self.failed.set(Some(Instant::now()));
            self.cut(found);
            tracing::debug!(store = self.store, %error, "no room for the reserve");
        }
        made.is_ok()
    }

    /// Extends the file to `wanted` and a margin, then gives the margin back. The content is
    /// random: a file system that compresses or skips zeros would reserve no space for them.
    fn extend(&self, wanted: u64) -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = private(options.append(true).create(true)).open(&self.path)?;
        let mut chunk = vec![0; CHUNK];
        let mut missing = (wanted + MARGIN).saturating_sub(file.metadata()?.len());
        while missing > 0 {
            fastrand::fill(&mut chunk);
            let length = usize::try_from(missing).map_or(CHUNK, |missing| missing.min(CHUNK));
            file.write_all(chunk.get(..length).unwrap_or_default())?;
            missing -= length as u64;
        }
        file.set_len(wanted)
    }

    /// Truncates it to its size before a failed attempt.
    fn cut(&self, found: u64) {
        let result = if found == 0 {
            fs::remove_file(&self.path)
        } else {
            let file = fs::OpenOptions::new().write(true).open(&self.path);
            file.and_then(|file| file.set_len(found))
        };
        if let Err(error) = result {
            tracing::debug!(store = self.store, %error, "cannot shrink or remove the reserve");
        }
    }

    /// Deletes it to free its space. Returns true if it existed.
    pub(crate) fn release(&self) -> bool {
        self.failed.set(Some(Instant::now()));
        let is_released = fs::remove_file(&self.path).is_ok();
        if is_released {
            let store = &self.store;
            tracing::error!(
                store,
                "the disk is full: new tasks are refused, everything else goes on"
            );
        }
        is_released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_as_large_as_its_database_within_bounds() {
        let mib = |n: u64| n << 20;
        let sizes = [0, mib(1), mib(2), mib(3), mib(16), mib(17), mib(1_000)].map(wanted);
        let expected = [2, 2, 2, 4, 16, 20, 20].map(mib);
        assert_eq!(sizes, expected);
    }

    #[test]
    fn a_reserve_is_made_grows_and_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::new("here", &folder.path().join("db"));
        let length = || fs::metadata(folder.path().join("db-reserve")).map_or(0, |file| file.len());
        assert!(reserve.is_ready(0));
        assert_eq!(length(), LEAST);
        assert!(reserve.is_ready(3 << 20));
        assert_eq!(length(), 4 << 20);
        assert!(reserve.release() && !reserve.release());
        assert_eq!(length(), 0);
        assert!(!reserve.is_ready(0), "not at once");
    }

    #[test]
    fn a_reserve_that_cannot_be_made_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::new("here", &folder.path().join("missing/db"));
        assert!(!reserve.is_ready(0));
    }
}
