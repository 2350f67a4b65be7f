//! What was done to the files of a modelled disk, and what of it is not sure to survive a power
//! loss.
//!
//! The library in disk.c writes a record before each change of a file or a name. A change of a file
//! is durable once a sync of the file (`fsync`, `fdatasync`; of a single write: `O_SYNC`,
//! `O_DSYNC`) has begun after it and returned. Changes of names take effect in order, as in the
//! journal of a file system: a sync of a folder makes sure of those in it and of all before them, a
//! sync of a file of its own name and of all before that, as ext4 does. Nothing else makes anything
//! durable: `sync_file_range` does not, and a shared mapping is never durable.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::run::{Failure, Result};

/// What cannot be relied on when the power goes.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// By inode.
    pub(super) files: BTreeMap<u64, FileLog>,
    /// In order.
    pub(super) names: Vec<NameChange>,
    /// How many changes were recorded in all, durable or not.
    pub(super) changes: usize,
    /// Calls that the model does not know.
    pub(super) odd: BTreeSet<String>,
}

/// What happened to one file since it was last synced.
#[derive(Debug, Default)]
pub(super) struct FileLog {
    /// In order.
    pub(super) changes: Vec<Change>,
    /// A file that was written as a stream: its length when it was last synced.
    pub(super) streamed_from: Option<u64>,
    /// Whether it was mapped to be written.
    pub(super) is_mapped: bool,
}

/// A write, or another length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Its place in the order of everything.
    pub(super) place: usize,
    /// Where the old bytes were.
    pub(super) offset: u64,
    /// The length of the write, or the new one of the file.
    pub(super) length: u64,
    /// The old length of the file.
    pub(super) before: u64,
    /// What was there.
    pub(super) old: Vec<u8>,
    /// Which of the two.
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A write; it is durable by itself.
    SureWrite,
    /// A write.
    Write,
    /// Another length of the file.
    Length,
}

impl Change {
    /// Whether the file was longer or shorter afterwards.
    pub(super) fn changes_length(&self) -> bool {
        self.what == What::Length || self.offset + self.length > self.before
    }
}

/// A change of a name.
#[derive(Debug)]
pub(super) struct NameChange {
    pub(super) place: usize,
    pub(super) what: Rename,
    folder: u64,
    /// The inode that got the name.
    named: u64,
}

#[derive(Debug)]
pub(super) enum Rename {
    /// A file or folder that was made.
    Created(PathBuf),
    /// From, to, and the grave of what was there.
    Renamed(PathBuf, PathBuf, Option<u64>),
    /// The name that is gone, and the grave.
    Unlinked(PathBuf, u64),
}

impl NameChange {
    /// The inode that was renamed.
    pub(super) fn named(&self) -> u64 {
        self.named
    }
}

/// A record as the library writes it: eight numbers, then bytes.
#[derive(Clone, Copy, Debug)]
struct Record<'a> {
    kind: u64,
    file: u64,
    offset: u64,
    length: u64,
    before: u64,
    token: u64,
    first: &'a [u8],
    second: &'a [u8],
}

/// Numbers of a record, eight bytes each.
const NUMBERS: usize = 8;

impl Journal {
    /// Reads the records in `file`.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let bytes = std::fs::read(file)?;
        let records = records(&bytes);
        let syncs = Syncs::of(&records);
        let mut journal = Self::default();
        for (place, record) in records.iter().enumerate() {
            journal.add(place, record, &syncs)?;
        }
        journal.forget_durable_names(&syncs);
        Ok(journal)
    }

    fn add(&mut self, place: usize, record: &Record<'_>, syncs: &Syncs) -> Result<()> {
        let path = |bytes| PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
        let grave = Some(record.token).filter(|grave| *grave > 0);
        match record.kind {
            1 | 2 => self.change(place, record, syncs),
            3 => self.name(place, record, Rename::Created(path(record.first))),
            4 => {
                if let Some(created) = self.names.last_mut() {
                    created.named = record.file;
                }
            }
            5 => {
                let what = Rename::Renamed(path(record.first), path(record.second), grave);
                self.name(place, record, what);
            }
            6 => {
                let what = Rename::Unlinked(path(record.first), record.token);
                self.name(place, record, what);
            }
            7 | 8 => {}
            9 => self.file(record.file).is_mapped = true,
            10 => {
                let synced = syncs.files.get(&record.file);
                let synced = synced.filter(|synced| synced.place > place);
                let length = synced.map_or(record.before, |synced| synced.length);
                self.file(record.file).streamed_from = Some(length);
            }
            11 => {
                let call = String::from_utf8_lossy(record.first);
                self.odd.insert(call.into_owned());
            }
            kind => return Err(Failure(format!("a record of the unknown kind {kind}"))),
        }
        Ok(())
    }

    fn file(&mut self, inode: u64) -> &mut FileLog {
        self.files.entry(inode).or_default()
    }

    fn change(&mut self, place: usize, record: &Record<'_>, syncs: &Syncs) {
        self.changes += 1;
        let synced = syncs.files.get(&record.file);
        if synced.is_some_and(|synced| synced.place > place) {
            return;
        }
        let is_certain = syncs.tokens.contains(&record.token);
        self.file(record.file).changes.push(Change {
            place,
            offset: record.offset,
            length: record.length,
            before: record.before,
            old: record.first.to_vec(),
            what: match record.kind {
                1 if is_certain => What::SureWrite,
                1 => What::Write,
                _ => What::Length,
            },
        });
    }

    fn name(&mut self, place: usize, record: &Record<'_>, what: Rename) {
        self.changes += 1;
        self.names.push(NameChange {
            place,
            what,
            folder: record.file,
            named: record.offset,
        });
    }

    fn forget_durable_names(&mut self, syncs: &Syncs) {
        let is_synced = |inode: u64, place: usize| {
            let synced = syncs.files.get(&inode);
            inode != 0 && synced.is_some_and(|synced| synced.place > place)
        };
        let is_durable = |name: &NameChange| {
            is_synced(name.folder, name.place) || is_synced(name.named, name.place)
        };
        let durable = self.names.iter().rposition(is_durable);
        self.names.drain(..durable.map_or(0, |last| last + 1));
    }
}

/// The last sync of each file that returned, and all that did.
#[derive(Debug, Default)]
struct Syncs {
    files: BTreeMap<u64, Synced>,
    tokens: BTreeSet<u64>,
}

/// When a sync began, and how long the file was.
#[derive(Debug)]
struct Synced {
    place: usize,
    length: u64,
}

impl Syncs {
    fn of(records: &[Record<'_>]) -> Self {
        let returned = records.iter().filter(|record| record.kind == 8);
        let tokens: BTreeSet<_> = returned.map(|record| record.token).collect();
        let mut files = BTreeMap::new();
        for (place, record) in records.iter().enumerate() {
            if record.kind == 7 && tokens.contains(&record.token) {
                let length = record.length;
                files.insert(record.file, Synced { place, length });
            }
        }
        Self { files, tokens }
    }
}

/// All records but the last one if it is cut off: what it tells of has not happened.
fn records(mut bytes: &[u8]) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    while let Some(record) = next(&mut bytes) {
        records.push(record);
    }
    records
}

fn next<'a>(bytes: &mut &'a [u8]) -> Option<Record<'a>> {
    let mut rest = *bytes;
    let mut numbers = [0; NUMBERS];
    for number in &mut numbers {
        let (word, after) = rest.split_first_chunk()?;
        *number = u64::from_ne_bytes(*word);
        rest = after;
    }
    let [kind, file, offset, length, before, token, first, second] = numbers;
    let (first, rest) = rest.split_at_checked(usize::try_from(first).ok()?)?;
    let (second, rest) = rest.split_at_checked(usize::try_from(second).ok()?)?;
    *bytes = rest;
    Some(Record {
        kind,
        file,
        offset,
        length,
        before,
        token,
        first,
        second,
    })
}
