//! Disks that are full, or read-only: real ones, of the test's own.

use delayq_core::Chronicle;
use delayq_core::state::TaskState;

use super::*;

/// Runs a test of this file again, with a disk of its own, which tmpfs makes with these options.
///
/// The disk is mounted where nobody else sees it, which most Linux systems let everybody do; where
/// they do not, there is no such disk to test with.
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
        return eprintln!("LEFT OUT: {name}, as this user may not mount a disk here");
    }
    let script = format!("{mount} && exec \"$0\" \"$@\"");
    let this = std::env::current_exe().unwrap();
    let output = unshare()
        .arg(&script)
        .arg(this)
        .args(["--exact", &format!("tests::disks::{name}"), "--nocapture"])
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

/// Submits until the disk is full; returns what was accepted, and why the next one was not.
async fn fill(store: &Arc<SqliteStore>) -> (Vec<String>, Error) {
    let mut accepted = Vec::new();
    loop {
        let id = accepted.len().to_string();
        match submit(store, large_task(&id, 10_000)).await {
            Ok(_) => accepted.push(id),
            Err(error) => return (accepted, error),
        }
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let Some(disk) = own_disk() else {
        return on_a_disk("a_full_disk_refuses_and_loses_nothing", "size=20m");
    };
    let path = disk.join("tasks.sqlite");
    let open = || SqliteStore::open(&path, Arc::new(SystemClock), StoreOptions::default());
    let store = open().await.unwrap();
    let (accepted, error) = fill(&store).await;
    assert!(matches!(&error, Error::Full { .. }), "{error}");
    assert!(accepted.len() > 100, "{}", accepted.len());
    store.close().await;
    let store = open().await.unwrap();
    for id in &accepted {
        assert!(find(&store, id).await.is_some(), "{id}");
    }
    assert_eq!(find(&store, &accepted.len().to_string()).await, None);
    is_sound(&store).await;
}

/// Somebody else who takes all the room that is left.
fn crowd(disk: &std::path::Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(disk.join("crowd")).unwrap();
    while file.write(&[7; 4_096]).is_ok_and(|written| written > 0) {}
}

/// The error of a full disk said "purge what is not needed", and the purge, claims and settlements
/// failed with the same error: a full store could not be emptied.
#[tokio::test]
async fn a_store_on_a_full_disk_drains() {
    let Some(disk) = own_disk() else {
        for size in ["size=12m", "size=50m"] {
            on_a_disk("a_store_on_a_full_disk_drains", size);
        }
        return;
    };
    let path = disk.join("tasks.sqlite");
    let open = || SqliteStore::open(&path, Arc::new(SystemClock), StoreOptions::default());
    let store = open().await.unwrap();
    let (accepted, error) = fill(&store).await;
    assert!(error.to_string().contains("purge"), "{error}");
    crowd(&disk);
    let error = submit(&store, large_task("new", 500_000))
        .await
        .unwrap_err();
    assert!(matches!(&error, Error::Full { .. }), "{error}");
    // Every other operation works.
    let list = TaskType::new("listed").unwrap();
    store.register_type(&list).await.unwrap();
    let action = delayq_core::chronicle::Action::new("ann", "cli", "purge", "order.cancel");
    store.log_action(&action).await.unwrap();
    let half = accepted.len() / 2;
    let (cancelled, later) = (id(&accepted[half]), id(&accepted[half + 1]));
    let _ = store.cancel(&usual_type(), &cancelled).await.unwrap();
    let when = delayq_core::job::When::After(Duration::from_hours(1));
    let _ = store.reschedule(&usual_type(), &later, when).await.unwrap();
    for _ in 0..half / 10 {
        let claimed = claim(&store).await.unwrap();
        let locks: Vec<_> = claimed.tasks.iter().map(|task| task.lock.clone()).collect();
        let extended = store.extend(&bucket(), locks, Duration::from_mins(1)).await;
        assert_eq!(extended.unwrap().len(), 10);
        store.settle(&bucket(), done(&claimed)).await.unwrap();
    }
    let purged = store.purge(&usual_type(), TaskState::Scheduled).await;
    assert!(purged.unwrap() >= accepted.len() as u64 / 2 - 20);
    is_sound(&store).await;
    // The room within the file is enough for new tasks, although the disk is full.
    accept(&store, "after").await;
    std::fs::remove_file(disk.join("crowd")).unwrap();
    let made = async {
        while !disk.join("tasks.sqlite-reserve").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), made)
        .await
        .unwrap();
}

/// A store that nobody submits to, on a disk that somebody else has filled.
#[tokio::test]
async fn tasks_run_on_a_disk_that_others_have_filled() {
    let Some(disk) = own_disk() else {
        return on_a_disk("tasks_run_on_a_disk_that_others_have_filled", "size=24m");
    };
    let path = disk.join("tasks.sqlite");
    let open = || SqliteStore::open(&path, Arc::new(SystemClock), StoreOptions::default());
    let store = open().await.unwrap();
    for n in 0..50 {
        accept(&store, &n.to_string()).await;
    }
    store.close().await;
    crowd(&disk);
    let store = open().await.unwrap();
    for _ in 0..5 {
        let claimed = claim(&store).await.unwrap();
        assert_eq!(claimed.tasks.len(), 10);
        let settled = store.settle(&bucket(), done(&claimed)).await.unwrap();
        assert_eq!(settled.len(), 10);
    }
    let error = submit(&store, task("new")).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("free 3 MiB on its disk"), "{said}");
    is_sound(&store).await;
}

/// The log of a process that was killed needs room for its index before anything else.
#[tokio::test]
async fn the_file_of_a_killed_process_is_opened_on_a_full_disk() {
    let Some(disk) = own_disk() else {
        let name = "the_file_of_a_killed_process_is_opened_on_a_full_disk";
        return on_a_disk(name, "size=24m");
    };
    let (path, left) = (disk.join("tasks.sqlite"), disk.join("left.sqlite"));
    let open = |path| SqliteStore::open(path, Arc::new(SystemClock), StoreOptions::default());
    let store = open(path).await.unwrap();
    let accepted: Vec<_> = (0..200).map(|n| n.to_string()).collect();
    for id in &accepted {
        accept(&store, id).await;
    }
    // What a kill leaves behind: the files without the index of the log, which is rebuilt.
    for suffix in ["", "-wal", "-reserve"] {
        let name = |file: &str| disk.join(format!("{file}.sqlite{suffix}"));
        std::fs::copy(name("tasks"), name("left")).unwrap();
    }
    crowd(&disk);
    let left = open(left).await.unwrap();
    for id in &accepted {
        assert!(find(&left, id).await.is_some(), "{id}");
    }
    let claimed = claim(&left).await.unwrap();
    assert_eq!(claimed.tasks.len(), 10);
    left.settle(&bucket(), done(&claimed)).await.unwrap();
    is_sound(&left).await;
}

#[tokio::test]
async fn a_read_only_disk_is_reported_as_such() {
    let Some(disk) = own_disk() else {
        return on_a_disk("a_read_only_disk_is_reported_as_such", "size=8m");
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

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_file_is_refused_with_what_to_give() {
    let place = Place::new();
    std::os::unix::fs::symlink(place.path().with_extension("gone"), place.path()).unwrap();
    let open = |path| SqliteStore::open(path, Arc::new(SystemClock), StoreOptions::default());
    for (path, why) in [
        (place.path(), "a link to a file that is not there"),
        ("/dev/null".into(), "a device"),
    ] {
        let error = open(path).await.unwrap_err();
        assert!(matches!(&error, Error::Misconfigured { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}
