//! A power loss: what was not durable is undone, or survives in part, as chance will have it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::journal::{Change, FileLog, Journal, NameChange, Rename, What};
use crate::run::Result;

/// What a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// What survives of that which need not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survival {
    /// Nothing.
    Nothing,
    /// Everything before this place in the order; what stands there is torn.
    Prefix(usize),
    /// Each change in so many of 100 cases, now and then torn. Names still change in order.
    Subset(u32),
}

/// What survives of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Torn,
    Lost,
}

impl Survival {
    /// Half of the power losses take everything.
    pub(super) fn random(dice: &mut fastrand::Rng, journal: &Journal) -> Self {
        match dice.u32(0..8) {
            0..4 => Self::Nothing,
            4..6 => {
                let changes = journal.files.values().flat_map(|file| &file.changes);
                let changes = changes.map(|change| change.place);
                let names = journal.names.iter().map(|name| name.place);
                let places: Vec<_> = changes.chain(names).collect();
                Self::Prefix(*dice.choice(&places).unwrap_or(&0))
            }
            _ => Self::Subset(dice.u32(10..90)),
        }
    }

    fn fate(self, place: usize, dice: &mut fastrand::Rng) -> Fate {
        match self {
            Self::Prefix(end) if place < end => Fate::Kept,
            Self::Prefix(end) if place == end => Fate::Torn,
            Self::Subset(percent) if dice.u32(0..100) < percent => {
                let is_torn = dice.u32(0..4) == 0;
                if is_torn { Fate::Torn } else { Fate::Kept }
            }
            Self::Nothing | Self::Prefix(_) | Self::Subset(_) => Fate::Lost,
        }
    }
}

/// What a power loss took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    /// Changes that were recorded, durable or not.
    pub(super) changes: usize,
    /// Changes of files that were not durable.
    pub(super) unsynced: usize,
    /// Those of which something was undone.
    pub(super) undone: usize,
    /// Those of them of which some sectors were kept.
    pub(super) torn: usize,
    /// Changes of names that were undone.
    pub(super) names: usize,
    /// Bytes that were undone.
    pub(super) bytes: u64,
}

/// Undoes in the folder `store` what `survival` says. `graves` has what was unlinked.
pub(super) fn cut(
    (store, graves): (&Path, &Path),
    journal: &Journal,
    survival: Survival,
    dice: &mut fastrand::Rng,
) -> Result<Loss> {
    let mut paths = BTreeMap::new();
    find_files(graves, &mut paths)?;
    find_files(store, &mut paths)?;
    let mut loss = Loss {
        changes: journal.changes,
        ..Loss::default()
    };
    for (inode, log) in &journal.files {
        // What is neither here nor in a grave never got a name that lasted.
        if let Some(path) = paths.get(inode) {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            let mut place = Place {
                file,
                survival,
                dice,
                loss: &mut loss,
            };
            place.cut(log)?;
        }
    }
    let mut is_lost = |name: &NameChange| survival.fate(name.place, dice) != Fate::Kept;
    let names = &journal.names;
    let kept = names.iter().position(&mut is_lost).unwrap_or(names.len());
    for name in names.get(kept..).unwrap_or_default().iter().rev() {
        undo_name(name, graves)?;
        loss.names += 1;
    }
    Ok(loss)
}

fn find_files(folder: &Path, found: &mut BTreeMap<u64, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find_files(&entry.path(), found)?;
        } else {
            found.insert(entry.metadata()?.ino(), entry.path());
        }
    }
    Ok(())
}

/// A file being cut.
struct Place<'a> {
    file: File,
    survival: Survival,
    dice: &'a mut fastrand::Rng,
    loss: &'a mut Loss,
}

impl Place<'_> {
    fn cut(&mut self, log: &FileLog) -> Result<()> {
        if log.is_mapped {
            return self.scramble();
        }
        let mut new = Vec::new();
        for change in log.changes.iter().rev() {
            new.push(self.undo(change)?);
        }
        new.reverse();
        self.loss.unsynced += new.len();
        let mut is_cut_off = false;
        for (change, new) in log.changes.iter().zip(new) {
            let fate = self.fate(change, is_cut_off)?;
            // The length of a file changes in order, and never before what it makes room for.
            is_cut_off |= change.changes_length() && fate != Fate::Kept;
            self.redo(change, &new, fate)?;
        }
        match log.streamed_from {
            Some(length) => self.shorten(length),
            None => Ok(()),
        }
    }

    fn fate(&mut self, change: &Change, is_cut_off: bool) -> Result<Fate> {
        let fate = self.survival.fate(change.place, self.dice);
        if change.what == What::SureWrite {
            return Ok(Fate::Kept);
        }
        let end = change.offset + change.length;
        let is_outside = is_cut_off && end > self.file.metadata()?.len();
        let is_whole = change.what == What::Length;
        Ok(match fate {
            _ if is_outside || is_cut_off && is_whole => Fate::Lost,
            Fate::Torn if is_whole => Fate::Lost,
            fate => fate,
        })
    }

    /// Undoes one change, all later ones being undone. Returns what it had written.
    fn undo(&self, change: &Change) -> Result<Vec<u8>> {
        let mut new = Vec::new();
        if change.what != What::Length {
            let there = self.file.metadata()?.len().saturating_sub(change.offset);
            let there = usize::try_from(there.min(change.length))?;
            new.resize(there, 0);
            self.file.read_exact_at(&mut new, change.offset)?;
        }
        self.file.set_len(change.before)?;
        self.file.write_all_at(&change.old, change.offset)?;
        Ok(new)
    }

    fn redo(&mut self, change: &Change, new: &[u8], fate: Fate) -> Result<()> {
        if change.what == What::Length {
            return match fate {
                Fate::Kept => Ok(self.file.set_len(change.length)?),
                Fate::Torn | Fate::Lost => {
                    self.loss.undone += 1;
                    Ok(())
                }
            };
        }
        let (mut kept, mut lost) = (0, 0);
        let mut offset = change.offset;
        let mut rest = new;
        // What a file grows by comes in order.
        let in_order = self.dice.u64(0..=change.length);
        while !rest.is_empty() {
            let sector = usize::try_from(SECTOR - offset % SECTOR)?.min(rest.len());
            let (bytes, after) = rest.split_at(sector);
            let survives = match fate {
                Fate::Torn if change.changes_length() => kept + (bytes.len() as u64) < in_order,
                Fate::Torn => self.dice.bool(),
                Fate::Kept => true,
                Fate::Lost => false,
            };
            if survives {
                self.file.write_all_at(bytes, offset)?;
                kept += bytes.len() as u64;
            } else {
                lost += bytes.len() as u64;
            }
            offset += bytes.len() as u64;
            rest = after;
        }
        let is_same = change.before >= change.offset + new.len() as u64 && change.old == new;
        if lost > 0 && !is_same {
            self.loss.undone += 1;
            self.loss.torn += usize::from(kept > 0);
            self.loss.bytes += lost;
        }
        Ok(())
    }

    /// What a stream appended since `length` survives up to some point.
    fn shorten(&mut self, length: u64) -> Result<()> {
        let there = self.file.metadata()?.len();
        if there <= length {
            return Ok(());
        }
        self.loss.unsynced += 1;
        let end = match self.survival {
            Survival::Nothing => length,
            Survival::Prefix(_) | Survival::Subset(_) => self.dice.u64(length..=there),
        };
        self.file.set_len(end)?;
        self.loss.undone += usize::from(end < there);
        self.loss.bytes += there - end;
        Ok(())
    }

    /// Nothing is known of a mapped file: it may be as it was, of zeros, of anything, or empty.
    fn scramble(&mut self) -> Result<()> {
        let mut bytes = vec![0; usize::try_from(self.file.metadata()?.len())?];
        match self.dice.u32(0..4) {
            0 => return Ok(()),
            1 => return Ok(self.file.set_len(0)?),
            2 => {}
            _ => self.dice.fill(&mut bytes),
        }
        Ok(self.file.write_all_at(&bytes, 0)?)
    }
}

/// Undoes one change of a name, all later ones being undone; unless it was recorded and never
/// happened.
fn undo_name(name: &NameChange, graves: &Path) -> Result<()> {
    let grave = |number: u64| graves.join(number.to_string());
    match &name.what {
        Rename::Created(path) if path.is_dir() => fs::remove_dir(path)?,
        Rename::Created(path) => match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        },
        Rename::Renamed(from, to, replaced) => {
            let inode = fs::metadata(to).map(|file| file.ino());
            if inode.is_ok_and(|inode| inode == name.named()) && !from.exists() {
                fs::rename(to, from)?;
                if let Some(number) = replaced {
                    fs::rename(grave(*number), to)?;
                }
            }
        }
        Rename::Unlinked(path, number) if !path.exists() => fs::rename(grave(*number), path)?,
        Rename::Unlinked(..) => {}
    }
    Ok(())
}
