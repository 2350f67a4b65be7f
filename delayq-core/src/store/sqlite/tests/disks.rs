//! Disks that are full, or read-only: real ones, of the test's own.

use super::*;

/// Runs a test of this file again, with a disk of its own, which tmpfs makes with these options.
///
/// The disk is mounted where nobody else sees it, which most Linux systems let everybody do; where they
/// do not, there is no such disk to test with.
fn on_a_disk(name: &str, options: &str) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    let mount = format!("mount -t tmpfs -o {options} none '{disk}'");
    let unshare = || {
        let mut unshare = std::process::Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "sh", "-c"]);
        unshare
    };
    if !unshare()
        .arg(&mount)
        .status()
        .is_ok_and(|status| status.success())
    {
        return eprintln!("{name}: not tested, as this system lets nobody mount a disk");
    }
    let script = format!("{mount} && exec \"$0\" \"$@\"");
    let this = std::env::current_exe().unwrap();
    let output = unshare()
        .arg(&script)
        .arg(this)
        .args([
            "--exact",
            &format!("store::sqlite::tests::disks::{name}"),
            "--nocapture",
        ])
        .env("DELAYQ_TEST_DISK", disk)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let result = String::from_utf8_lossy(&output.stdout);
    // A name that fits no test is no failure.
    let ran = result.contains("1 passed");
    assert!(output.status.success() && ran, "{said}{result}");
}

fn own_disk() -> Option<PathBuf> {
    std::env::var_os("DELAYQ_TEST_DISK").map(PathBuf::from)
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let Some(disk) = own_disk() else {
        return on_a_disk("a_full_disk_refuses_and_loses_nothing", "size=2m");
    };
    let path = disk.join("tasks.sqlite");
    let open = || SqliteStore::open(&path, Arc::new(SystemClock), StoreOptions::default());
    let store = open().await.unwrap();
    let mut accepted = Vec::new();
    let error = loop {
        let id = accepted.len().to_string();
        match submit(&store, large_task(&id, 10_000)).await {
            Ok(_) => accepted.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Full { .. }), "{error}");
    store.close().await;
    let store = open().await.unwrap();
    for id in &accepted {
        assert!(find(&store, id).await.is_some(), "{id}");
    }
    assert_eq!(find(&store, &accepted.len().to_string()).await, None);
    is_sound(&store).await;
}

#[tokio::test]
async fn a_read_only_disk_is_told_as_such() {
    let Some(disk) = own_disk() else {
        return on_a_disk("a_read_only_disk_is_told_as_such", "size=2m");
    };
    let path = disk.join("tasks.sqlite");
    let open =
        |path: PathBuf| SqliteStore::open(path, Arc::new(SystemClock), StoreOptions::default());
    let store = open(path.clone()).await.unwrap();
    accept(&store, "1").await;
    store.close().await;
    let remount = |mode: &str| {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-o", &format!("remount,{mode}"), disk.to_str().unwrap()]);
        assert!(mount.status().unwrap().success());
    };
    remount("ro");
    for path in [path.clone(), disk.join("new"), disk.join("folder/new")] {
        let error = open(path).await.unwrap_err();
        assert!(matches!(&error, Error::ReadOnly { .. }), "{error}");
    }
    remount("rw");
    assert!(find(&open(path).await.unwrap(), "1").await.is_some());
}
