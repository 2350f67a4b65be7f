//! A disk whose power can go: a folder, the library that watches it, and what it has written down.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use delayq_plugin::millis;

use super::cut::{Loss, Survival, cut};
use super::journal::Journal;
use crate::run::{Preload, Result, build_library, failure};

/// The library.
const SOURCE: &str = include_str!("disk.c");
/// The page that processes share: an unlocked lock, how long a sync takes, and room for a count.
const PAGE: usize = 4_096;
/// Longest time that the first write is waited for: clients of a server that was gone try again
/// after half a second at most.
const USE_MS: u32 = 2_000;
/// Longest time that the next change is waited for.
const CHANGE: Duration = millis(100);

/// A disk. Processes that write to it are started with its [`preload`](Self::preload).
#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    library: PathBuf,
}

impl Disk {
    /// An empty disk, in `FOLDER/disk`.
    pub(super) fn build(folder: &Path) -> Result<Self> {
        let root = folder.join("disk");
        fs::create_dir_all(&root)?;
        let disk = Self {
            root: root.canonicalize()?,
            library: build_library(folder, "disk", SOURCE)?,
        };
        disk.empty()?;
        Ok(disk)
    }

    /// Where its files are.
    pub(super) fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    pub(super) fn preload(&self) -> Preload {
        Preload {
            library: self.library.clone(),
            variable: "DELAYQ_CHAOS_DISK",
            place: self.root.clone(),
        }
    }

    /// Another, empty disk in its place. Nobody may be using it.
    pub(super) fn empty(&self) -> Result<()> {
        for name in ["store", "graves"] {
            clear(&self.root.join(name))?;
        }
        self.turn_on(0)
    }

    /// Everything on it is durable now, and from now on each sync takes `sync_us`.
    pub(super) fn turn_on(&self, sync_us: u32) -> Result<()> {
        fs::write(self.root.join("journal"), [])?;
        let mut page = [0; PAGE];
        if let Some(place) = page.get_mut(4..8) {
            place.copy_from_slice(&sync_us.to_ne_bytes());
        }
        fs::write(self.root.join("page"), page)?;
        Ok(())
    }

    /// Returns once anything was written since the power came, or after a while.
    pub(super) async fn await_use(&self) -> Result<()> {
        let journal = self.root.join("journal");
        for _ in 0..USE_MS {
            if fs::metadata(&journal)?.len() > 0 {
                break;
            }
            tokio::time::sleep(millis(1)).await;
        }
        Ok(())
    }

    /// Returns at the next change, or after a tenth of a second.
    pub(super) fn await_change(&self) -> Result<()> {
        let journal = self.root.join("journal");
        let (before, asked) = (fs::metadata(&journal)?.len(), Instant::now());
        while asked.elapsed() < CHANGE && fs::metadata(&journal)?.len() == before {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The power has gone, and all processes with it.
    pub(super) fn cut(&self, dice: &mut fastrand::Rng) -> Result<Loss> {
        let journal = Journal::read(&self.root.join("journal"))?;
        if let Some(call) = journal.odd.first() {
            return failure(format!("the model of the disk does not know {call}"));
        }
        let survival = Survival::random(dice, &journal);
        self.cut_to(&journal, survival, dice)
    }

    pub(super) fn cut_to(
        &self,
        journal: &Journal,
        survival: Survival,
        dice: &mut fastrand::Rng,
    ) -> Result<Loss> {
        let graves = self.root.join("graves");
        let loss = cut((&self.store(), &graves), journal, survival, dice)?;
        clear(&graves)?;
        Ok(loss)
    }
}

fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir(folder)?)
}
