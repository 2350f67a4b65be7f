//! Files that cannot be used: a clear error that says what to do, nothing changed, no panic.

use std::fs;

use delayq_core::store::Durability;

use super::*;

/// Everything in the folder, to see that nothing was changed.
fn contents(place: &Place) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(place.folder.path()).unwrap();
    let read = |file: std::io::Result<fs::DirEntry>| {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        (name, fs::read(file.path()).unwrap())
    };
    let mut contents: Vec<_> = files.map(read).collect();
    contents.sort();
    contents
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let place = Place::new();
    for text in ["short", &"a letter to a friend. ".repeat(1_000)] {
        fs::write(place.path(), text).unwrap();
        let before = contents(&place);
        let error = place.refusal().await;
        assert!(matches!(&error, Error::Corrupt { .. }), "{error}");
        assert!(
            error.to_string().contains("not an SQLite database"),
            "{error}"
        );
        assert_eq!(contents(&place), before);
    }
}

#[tokio::test]
async fn a_database_of_another_application_is_refused_and_left_alone() {
    for sql in [
        "CREATE TABLE orders (id)",
        "PRAGMA application_id = 7; CREATE TABLE orders (id)",
    ] {
        let place = Place::new();
        place.connect().execute_batch(sql).unwrap();
        let before = contents(&place);
        let error = place.refusal().await;
        assert!(matches!(&error, Error::Misconfigured { .. }), "{error}");
        assert!(
            error.to_string().contains("give delayq a file of its own"),
            "{error}"
        );
        assert_eq!(contents(&place), before);
    }
}

#[tokio::test]
async fn a_file_of_a_newer_release_is_refused_and_left_alone() {
    let place = Place::new();
    place.open().await.close().await;
    place
        .connect()
        .execute_batch("PRAGMA user_version = 3")
        .unwrap();
    let before = contents(&place);
    let error = place.refusal().await;
    let is_newer = matches!(
        error,
        Error::Incompatible {
            found: 3,
            supported: 2,
            ..
        }
    );
    assert!(is_newer, "{error}");
    assert_eq!(contents(&place), before);
}

#[tokio::test]
async fn a_newer_release_that_takes_over_a_running_file_stops_the_older_one() {
    let place = Place::new();
    let store = place.open().await;
    place
        .connect()
        .execute_batch("PRAGMA user_version = 3")
        .unwrap();
    let error = submit(&store, task("1")).await.unwrap_err();
    assert!(
        matches!(error, Error::Incompatible { found: 3, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_truncated_file_is_an_error_and_no_fresh_start() {
    let place = Place::new();
    let store = place.open().await;
    let tasks = (0..1_000).map(|n| task(&n.to_string())).collect();
    assert!(store.submit(tasks).await.iter().all(Result::is_ok));
    store.close().await;
    let file = fs::OpenOptions::new()
        .write(true)
        .open(place.path())
        .unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(size / 2).unwrap();
    let error = match place.try_open(StoreOptions::default()).await {
        Ok(store) => claim(&store).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(&error, Error::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
}

#[tokio::test]
async fn damaged_pages_are_an_error_and_no_panic() {
    let place = Place::new();
    let store = place.open().await;
    let tasks = (0..1_000).map(|n| task(&n.to_string())).collect();
    assert!(store.submit(tasks).await.iter().all(Result::is_ok));
    store.close().await;
    let mut bytes = fs::read(place.path()).unwrap();
    // All but the first page, which says what the file is.
    bytes[4_096..].fill(0xa5);
    fs::write(place.path(), &bytes).unwrap();
    let error = match place.try_open(StoreOptions::default()).await {
        Ok(store) => {
            claim(&store).await.unwrap_err();
            store.audit(&usual_type(), true).await.unwrap_err();
            submit(&store, task("new")).await.unwrap_err()
        }
        Err(error) => error,
    };
    assert!(matches!(&error, Error::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn a_log_without_its_file_is_refused() {
    let place = Place::new();
    fs::write(place.beside("-wal"), "frames").unwrap();
    let error = place.refusal().await;
    assert!(matches!(&error, Error::Corrupt { .. }), "{error}");
    assert!(
        error.to_string().contains("restore the file beside it"),
        "{error}"
    );
    assert!(!place.path().exists());
}

#[tokio::test]
async fn a_path_that_names_no_file_is_refused() {
    let open = |path: &str| {
        let path = path.to_owned();
        async move {
            let options = StoreOptions::default();
            SqliteStore::open(path, Arc::new(SystemClock), options)
                .await
                .unwrap_err()
        }
    };
    let folder = tempfile::tempdir().unwrap();
    for path in ["", ":memory:", folder.path().to_str().unwrap()] {
        let error = open(path).await;
        assert!(
            matches!(&error, Error::Misconfigured { .. }),
            "{path}: {error}"
        );
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = open(file.join("below").to_str().unwrap()).await;
    assert!(matches!(&error, Error::Misconfigured { .. }), "{error}");
    assert!(error.to_string().contains("cannot be made"), "{error}");
}

#[tokio::test]
async fn missing_folders_are_made_and_odd_names_are_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/file:tasks?mode=memory");
    let options = StoreOptions::default();
    let store = SqliteStore::open(&path, Arc::new(SystemClock), options)
        .await
        .unwrap();
    accept(&store, "1").await;
    assert!(path.is_file());
}

#[tokio::test]
async fn a_file_that_another_program_holds_for_itself_is_unavailable() {
    let place = Place::new();
    place.open().await.close().await;
    let other = place.connect();
    let hold = "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT;";
    other.execute_batch(hold).unwrap();
    let error = place.refusal().await;
    assert!(matches!(&error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("locked"), "{error}");
    drop(other);
    place.open().await;
}

/// Whatever happens to the open files, the store says so until they are back.
async fn notices(spoil: impl FnOnce(&Place), mend: impl FnOnce(&Place)) {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "before").await;
    spoil(&place);
    let errors = [
        submit(&store, task("lost")).await.unwrap_err(),
        claim(&store).await.unwrap_err(),
        store.check().await.unwrap_err(),
        store.types().await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(&error, Error::Unavailable { .. }), "{error}");
        let told = error.to_string();
        assert!(
            told.contains("was deleted, moved or replaced while it was open"),
            "{told}"
        );
    }
    mend(&place);
    accept(&store, "after").await;
    assert!(find(&store, "before").await.is_some());
    assert_eq!(find(&store, "lost").await, None);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_moved_away_is_noticed() {
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere.path().join("moved");
    notices(
        |place| fs::rename(place.path(), &elsewhere).unwrap(),
        |place| fs::rename(&elsewhere, place.path()).unwrap(),
    )
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_replaced_is_noticed() {
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere.path().join("moved");
    notices(
        |place| {
            fs::copy(place.path(), &elsewhere).unwrap();
            fs::rename(place.path(), place.beside("-old")).unwrap();
            fs::rename(&elsewhere, place.path()).unwrap();
        },
        |place| fs::rename(place.beside("-old"), place.path()).unwrap(),
    )
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_log_that_is_moved_away_is_noticed() {
    notices(
        |place| fs::rename(place.beside("-wal"), place.beside("-old")).unwrap(),
        |place| fs::rename(place.beside("-old"), place.beside("-wal")).unwrap(),
    )
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn every_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    for suffix in ["", "-wal", "-shm", "-reserve"] {
        let mode = fs::metadata(place.beside(suffix))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
    // A mode that somebody has chosen stays.
    store.close().await;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o640)).unwrap();
    let store = place.open().await;
    accept(&store, "2").await;
    for suffix in ["", "-wal"] {
        let mode = fs::metadata(place.beside(suffix))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640, "{suffix}");
    }
}

#[tokio::test]
async fn a_full_file_refuses_and_can_be_emptied() {
    let place = Place::new();
    let store = place.open().await;
    let limit = |pages: u32| {
        let sql = format!("PRAGMA max_page_count = {pages}");
        let operation = move |tx: &mut Tx<'_>| {
            tx.connection.query_row(&sql, [], |_| Ok(()))?;
            Ok(())
        };
        store.engine.write(Lane::Operations, Size::ONE, operation)
    };
    limit(200).await.unwrap();
    let mut accepted = Vec::new();
    let error = loop {
        let id = accepted.len().to_string();
        match submit(&store, large_task(&id, 10_000)).await {
            Ok(_) => accepted.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Full { .. }), "{error}");
    assert!(error.is_transient());
    assert!(accepted.len() > 10, "{}", accepted.len());
    for id in &accepted {
        assert!(find(&store, id).await.is_some());
    }
    assert_eq!(find(&store, &accepted.len().to_string()).await, None);
    is_sound(&store).await;
    // As the error says: with a little space to work in, it empties itself.
    limit(204).await.unwrap();
    let claimed = claim(&store).await.unwrap();
    store.settle(&bucket(), done(&claimed)).await.unwrap();
    accept(&store, "again").await;
    is_sound(&store).await;
}

#[tokio::test]
async fn a_class_that_cannot_be_kept_is_refused_with_what_to_change() {
    let place = Place::new();
    let open = |durability, sync| {
        let options = StoreOptions {
            durability,
            ..StoreOptions::default()
        };
        SqliteStore::open_with(place.path(), Arc::new(SystemClock), options, sync)
    };
    for (durability, sync) in [
        (Durability::Disk, SqliteSync::Normal),
        (Durability::Replicated, SqliteSync::Full),
    ] {
        let error = open(durability, sync).await.unwrap_err();
        assert!(matches!(&error, Error::Misconfigured { .. }), "{error}");
    }
    assert!(!place.path().exists());
    for (kept, sync) in [
        (Durability::Process, SqliteSync::Normal),
        (Durability::Disk, SqliteSync::Full),
    ] {
        let store = open(kept, sync).await.unwrap();
        assert_eq!(store.durability(), kept);
        let synchronous = |tx: &mut Tx<'_>| {
            let sql = "PRAGMA synchronous";
            Ok(tx
                .connection
                .query_row(sql, [], |row| row.get::<_, i64>(0))?)
        };
        let level = store
            .engine
            .write(Lane::Operations, Size::ONE, synchronous)
            .await;
        assert_eq!(level, Ok(if kept == Durability::Disk { 2 } else { 1 }));
        store.close().await;
    }
}

/// A defect of this crate must not look like a store that is slow.
#[tokio::test]
async fn after_a_panic_of_the_writer_nobody_waits_for_it() {
    let place = Place::new();
    let store = place.open().await;
    let panics = |_: &mut Tx<'_>| -> crate::error::Outcome<()> { panic!("planted") };
    let error = store
        .engine
        .write(Lane::Operations, Size::ONE, panics)
        .await;
    let error = error.unwrap_err();
    assert!(matches!(&error, Error::Indeterminate { .. }), "{error}");
    let closed = Err(Error::Closed("the store"));
    assert_eq!(submit(&store, task("1")).await, closed);
}

#[test]
fn a_file_in_another_journal_mode_is_told_with_what_to_do() {
    let place = Place::new();
    let settings = crate::schema::check_settings(&place.connect(), "here");
    let error = settings.unwrap_err().error("here");
    assert!(matches!(&error, Error::Misconfigured { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("PRAGMA journal_mode = WAL"), "{told}");
}
