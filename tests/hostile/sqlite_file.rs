//! A file that somebody deletes, empties, or puts an older copy in the place of.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use delayq_plugin::{StartError, hours};
use rusqlite::{Connection, backup::Backup};

use super::{health, is_well, logged, loss_is_noticed, send, serve, works};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("tasks.sqlite")
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    /// All files of the database.
    fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.folder.path()).unwrap();
        let files = files.map(|file| file.unwrap().path());
        files.filter(|file| file.is_file()).collect()
    }
}

/// Copies a database as `sqlite3` does with `.backup` and `.restore`.
fn copy(from: &Path, to: &Path) {
    let (from, mut to) = (
        Connection::open(from).unwrap(),
        Connection::open(to).unwrap(),
    );
    to.busy_timeout(Duration::from_secs(10)).unwrap();
    let backup = Backup::new(&from, &mut to).unwrap();
    backup
        .run_to_completion(1_000, Duration::from_millis(1), None)
        .unwrap();
}

#[tokio::test]
async fn an_emptied_file_is_noticed_named_and_used_again() {
    let place = Place::new();
    let (plugin, _) = serve(&place.url(), &["wiped", "wiped.*"]).await;
    works(&plugin, "wiped", "1").await;
    works(&plugin, "wiped.daily", "1").await;
    let other = Connection::open(place.path()).unwrap();
    other.busy_timeout(Duration::from_secs(10)).unwrap();
    other
        .execute_batch("BEGIN IMMEDIATE; DELETE FROM tasks; DELETE FROM types; COMMIT")
        .unwrap();
    loss_is_noticed(&plugin, "wiped", "emptied").await;
    loss_is_noticed(&plugin, "wiped.daily", "emptied").await;
    works(&plugin, "wiped", "2").await;
    works(&plugin, "wiped.daily", "2").await;
    is_well(&plugin).await;
}

#[tokio::test]
async fn an_older_copy_restored_into_the_open_file_is_noticed_and_its_tasks_run() {
    let place = Place::new();
    let (plugin, starts) = serve(&place.url(), &["restored"]).await;
    works(&plugin, "restored", "1").await;
    send(&plugin, "restored", "later", hours(1)).await;
    let kept = place.folder.path().join("kept");
    copy(&place.path(), &kept);
    works(&plugin, "restored", "2").await;
    copy(&kept, &place.path());
    let says = |health: &delayq_plugin::Health| {
        let said = health.handlers[0].last_store_loss.as_deref();
        said.is_some_and(|said| said.contains("gone back"))
    };
    health(&plugin, "gone back", says).await;
    logged(&["the store has lost data", "restored", "gone back"]).await;
    let _ = plugin
        .submit_service()
        .run_now("restored", "later")
        .await
        .unwrap();
    works(&plugin, "restored", "3").await;
    is_well(&plugin).await;
    assert_eq!(starts.lock().unwrap().get("restored/later"), Some(&1));
}

#[tokio::test]
async fn an_older_copy_put_there_while_nobody_runs_is_used_with_larger_fences() {
    let place = Place::new();
    let (plugin, _) = serve(&place.url(), &["swapped"]).await;
    send(&plugin, "swapped", "kept", Duration::from_secs(2)).await;
    let kept = place.folder.path().join("kept");
    copy(&place.path(), &kept);
    works(&plugin, "swapped", "gone").await;
    let service = plugin.submit_service();
    plugin.shutdown(Duration::ZERO).await;
    service.close().await;
    drop((plugin, service));
    for file in place.files().iter().filter(|file| **file != kept) {
        fs::remove_file(file).unwrap();
    }
    fs::rename(&kept, place.path()).unwrap();
    let (plugin, starts) = serve(&place.url(), &["swapped"]).await;
    works(&plugin, "swapped", "after").await;
    works(&plugin, "swapped", "kept").await;
    assert_eq!(starts.lock().unwrap()["swapped/kept"], 1);
    is_well(&plugin).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_deleted_file_is_in_health_and_log_and_work_goes_on_when_it_is_back() {
    let place = Place::new();
    let (plugin, starts) = serve(&place.url(), &["deleted"]).await;
    send(&plugin, "deleted", "waits", Duration::from_secs(3)).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let away: Vec<_> = place
        .files()
        .iter()
        .map(|file| file.file_name().unwrap().to_owned())
        .collect();
    for name in &away {
        fs::rename(place.folder.path().join(name), elsewhere.path().join(name)).unwrap();
    }
    let sick = health(&plugin, "deleted", |health| {
        health.handlers[0].last_error.is_some()
    })
    .await;
    let error = sick.store_error.unwrap().to_string();
    assert!(
        error.contains("was deleted, moved or replaced while it was open"),
        "{error}"
    );
    logged(&[
        "the store failed",
        "deleted",
        "was deleted, moved or replaced",
    ])
    .await;
    logged(&[
        "cannot keep what it promises",
        &place.path().display().to_string(),
    ])
    .await;
    for name in &away {
        fs::rename(elsewhere.path().join(name), place.folder.path().join(name)).unwrap();
    }
    works(&plugin, "deleted", "after").await;
    works(&plugin, "deleted", "waits").await;
    assert_eq!(starts.lock().unwrap()["deleted/waits"], 1);
    is_well(&plugin).await;
}

#[tokio::test]
async fn a_database_of_another_application_is_refused_at_the_start() {
    let place = Place::new();
    let theirs = Connection::open(place.path()).unwrap();
    theirs
        .execute_batch("CREATE TABLE theirs (a); PRAGMA application_id = 7")
        .unwrap();
    let builder = delayq_plugin::DelayQueuePlugin::builder().url(place.url());
    let builder = builder.without_registered_workers();
    let worker = super::Counting(super::Starts::default());
    let builder = builder.worker("job", delayq_plugin::WorkerOptions::DEFAULT, worker);
    let refused = builder.start().await.unwrap_err();
    assert!(matches!(refused, StartError::Store(_)), "{refused}");
    assert!(
        refused
            .to_string()
            .contains("belongs to another application"),
        "{refused}"
    );
    let tables: String = theirs
        .query_row("SELECT name FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, "theirs");
}
