//! What real programs do to files on a modelled disk, and what is left when the power goes.

use std::process::Command;

use tempfile::TempDir;

use super::cut::{Loss, Survival};
use super::disk::Disk;
use super::journal::Journal;

/// A disk whose power goes once.
struct Bench {
    folder: TempDir,
    disk: Disk,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::build(folder.path()).expect("a disk: is there a C compiler?");
        Self { folder, disk }
    }

    /// Runs shell commands on the disk, in its folder.
    fn run(&self, script: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]).current_dir(self.disk.store());
        self.disk.preload().add_to(&mut shell);
        assert!(shell.status().expect("a shell").success(), "{script}");
    }

    fn journal(&self) -> Journal {
        let file = self.folder.path().join("disk/journal");
        Journal::read(&file).expect("a whole journal")
    }

    fn cut(&self, survival: Survival) -> Loss {
        let mut dice = fastrand::Rng::with_seed(1);
        let journal = self.journal();
        assert!(journal.odd.is_empty(), "{:?}", journal.odd);
        self.disk
            .cut_to(&journal, survival, &mut dice)
            .expect("it can be undone")
    }

    /// The files that are there, with what they hold.
    fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(self.disk.store()).expect("the folder is there") {
            let entry = entry.expect("it can be read");
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            let name = entry.file_name().to_string_lossy().into_owned();
            files.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
        files.sort();
        files
    }

    fn has(&self, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), (*bytes).to_owned()))
            .collect();
        assert_eq!(self.files(), expected);
    }
}

#[test]
fn what_no_sync_followed_is_gone() {
    let bench = Bench::new();
    bench.run("printf one > a");
    let loss = bench.cut(Survival::Nothing);
    bench.has(&[]);
    assert_eq!((loss.undone, loss.bytes, loss.names), (1, 3, 1));
}

#[test]
fn what_a_sync_followed_stays() {
    let bench = Bench::new();
    bench.run("printf one > a; sync a; printf ' two' >> a");
    let loss = bench.cut(Survival::Nothing);
    bench.has(&[("a", "one")]);
    assert_eq!((loss.undone, loss.bytes, loss.names), (1, 4, 0));
}

#[test]
fn a_sync_of_one_file_is_none_of_another() {
    let bench = Bench::new();
    bench.run("printf one > a; printf two > b; sync b");
    bench.cut(Survival::Nothing);
    // Its name came before that of the other.
    bench.has(&[("a", ""), ("b", "two")]);
}

#[test]
fn what_was_overwritten_and_cut_off_is_back() {
    let bench = Bench::new();
    std::fs::write(bench.disk.store().join("a"), "one two three").expect("it can be written");
    bench.run("printf ONE | dd of=a conv=notrunc status=none; truncate -s 5 a; printf end >> a");
    bench.has(&[("a", "ONE tend")]);
    bench.cut(Survival::Nothing);
    bench.has(&[("a", "one two three")]);
}

#[test]
fn names_are_as_sure_as_the_sync_of_their_folder() {
    let bench = Bench::new();
    bench.run("printf old > a; printf new > b; sync a b .; mv b a; printf x > c; sync c; rm c");
    bench.cut(Survival::Nothing);
    // The sync of `c` made sure of the names before: of the replaced `a`, too.
    bench.has(&[("a", "new"), ("c", "x")]);

    let bench = Bench::new();
    bench.run("printf old > a; printf new > b; sync a b .; mv b a; rm a");
    bench.cut(Survival::Nothing);
    bench.has(&[("a", "old"), ("b", "new")]);
    bench.disk.turn_on(0).expect("it can be written");
    bench.run("mv b a; sync .; rm a");
    bench.cut(Survival::Nothing);
    bench.has(&[("a", "new")]);
}

#[test]
fn a_folder_that_was_made_and_not_synced_is_gone_with_its_files() {
    let bench = Bench::new();
    bench.run("mkdir d; printf one > d/a; mv d/a d/b");
    bench.cut(Survival::Nothing);
    bench.has(&[]);
}

#[test]
fn a_prefix_survives_up_to_a_torn_write() {
    let bench = Bench::new();
    bench.run("printf one > a; printf two >> a; printf three >> a");
    let journal = bench.journal();
    let second = journal.files.values().flat_map(|file| &file.changes).nth(1);
    let second = second.expect("three writes").place;
    bench.cut(Survival::Prefix(second));
    let [(_, bytes)] = bench.files().try_into().expect("one file");
    // One sector of three bytes is torn whole or not at all.
    assert!(bytes == "one" || bytes == "onetwo", "{bytes}");
}

#[test]
fn a_torn_write_keeps_some_of_its_sectors() {
    let bench = Bench::new();
    let file = bench.disk.store().join("a");
    std::fs::write(file, [b'o'; 8_192]).expect("it can be written");
    bench.run(
        "head -c 8192 /dev/zero | tr '\\0' x | \
         dd of=a bs=8192 conv=notrunc iflag=fullblock status=none",
    );
    let journal = bench.journal();
    let write = journal.files.values().flat_map(|file| &file.changes).next();
    let loss = bench.cut(Survival::Prefix(write.expect("a write").place));
    let [(_, bytes)] = bench.files().try_into().expect("one file");
    let sectors: Vec<_> = bytes.as_bytes().chunks(512).collect();
    let whole = sectors
        .iter()
        .filter(|sector| sector.iter().all(|byte| *byte == b'x'));
    let kept = whole.count();
    assert!(
        sectors
            .iter()
            .all(|sector| sector.iter().all(|byte| *byte == sector[0]))
    );
    assert!(kept > 0 && kept < 16, "{kept}");
    assert_eq!((loss.undone, loss.torn), (1, 1));
    assert_eq!(loss.bytes, 512 * (16 - kept as u64));
}

#[test]
fn a_write_that_syncs_itself_stays() {
    let bench = Bench::new();
    bench.run(
        "printf one > a; sync a; printf two | dd of=a oflag=append,dsync conv=notrunc status=none",
    );
    bench.cut(Survival::Nothing);
    bench.has(&[("a", "onetwo")]);
}

#[test]
fn a_record_that_is_cut_off_tells_of_nothing() {
    let bench = Bench::new();
    bench.run("printf one > a; sync a");
    bench.disk.turn_on(0).expect("it can be written");
    bench.run("printf two >> a");
    let file = bench.folder.path().join("disk/journal");
    let bytes = std::fs::read(&file).expect("it is there");
    std::fs::write(&file, &bytes[..bytes.len() - 1]).expect("it can be written");
    assert_eq!(bench.cut(Survival::Nothing), Loss::default());
}
