//! A disk that is full.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use delayq_plugin::{Clock, SystemClock};
use delayq_tests::instance::log::What;
use delayq_tests::instance::plan::{Load, Plan};
use delayq_tests::instance::scene::{Fault, Scene, check_file};
use delayq_tests::rig::until;

use crate::{GRACE, INSTANCE, LOCK};

/// Times at which a disk is full.
const FILLS: u32 = if cfg!(feature = "soak") { 3 } else { 1 };

/// A small file system of its own, in memory.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    /// `None`, and a line that says so, when this process may not mount.
    pub(crate) fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path());
        let mounted = mount.stderr(Stdio::null()).status();
        let disk = mounted
            .is_ok_and(|status| status.success())
            .then_some(Self { folder });
        if disk.is_none() {
            println!("LEFT OUT: this user may not mount a small file system (root on Linux may)");
        }
        disk
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Leaves no room.
    pub(crate) fn fill(&self) {
        let mut filler = File::create(self.path("filler")).unwrap();
        // Ends with "no space left on device", after a last piece that fits in part.
        while filler.write_all(&[7; 4_096]).is_ok() {}
    }

    pub(crate) fn free(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a process that is being ended may still have a file open.
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.folder.path())
            .status();
    }
}

#[tokio::test]
async fn a_full_disk_is_a_clear_error_loses_nothing_and_is_over_when_there_is_room() {
    let Some(disk) = Disk::mount("64m") else {
        return;
    };
    let url = format!("sqlite:{}", disk.path("tasks.sqlite").display());
    fills(&disk, url).await;
    check_file(&disk.path("tasks.sqlite"));
}

/// An instance under load, on a store whose disk is full some times.
pub(crate) async fn fills(disk: &Disk, url: String) {
    let mut scene = Scene::on(INSTANCE, url);
    let plan = Plan {
        load: Some(Load::of(&["a", "b"])),
        ..scene.plan(["a", "b"])
    };
    let mut instance = scene.start(&plan).await;
    for round in 1..=FILLS {
        let more = instance.count(What::is_sent) + 200;
        instance
            .nth("an acknowledgement", more, What::is_sent)
            .await;
        let (from, refused) = (SystemClock.now(), instance.count(What::is_refused));
        disk.fill();
        instance
            .nth("a failed submit", refused + 50, What::is_refused)
            .await;
        disk.free();
        let to = SystemClock.now();
        scene.note(Fault::Outage { from, to });
        let more = instance.count(What::is_sent) + 200;
        instance
            .nth("an acknowledgement", more, What::is_sent)
            .await;
        let again = until("a start", || {
            std::future::ready(scene.history().first_start_after(to, |_, _| true))
        })
        .await;
        let wait = scene.between(to.as_millis(), again);
        println!("round {round}: works again after {wait:?}");
        assert!(wait <= LOCK + GRACE, "{wait:?}");
    }
    instance.quiet().await;
    let service = scene.service().await;
    scene.drained(&service).await;
    let history = scene.history();
    history.check_starts();
    let done = history.check_done(&service).await;
    for (_, error, transient) in &history.refused {
        // A commit whose last sync fails may have been applied.
        let clear = error.contains(" is full: ") || error.contains("it may have been applied");
        assert!(clear && *transient, "{error}");
    }
    let refused = history.refused.len();
    let full = history
        .refused
        .iter()
        .filter(|(_, error, _)| error.contains(" is full: "));
    let full = full.count();
    assert!(
        full * 2 > refused,
        "{full} of {refused} say that the disk is full"
    );
    println!("{done} accepted and done; {full} of {refused} failures say that the disk is full");
}
