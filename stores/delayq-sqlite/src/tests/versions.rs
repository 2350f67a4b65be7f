//! Form of the file, which other releases read.

use delayq_core::operate::TypeSettings;
use delayq_core::state::TaskState;
use delayq_core::store::SettleOutcome;
use delayq_core::task::{Lock, WaitsFor};
use delayq_core::time::VirtualClock;

use super::*;
use crate::schema;

/// A file of version 1, as SQL: a task in every state, a large message, headers, every kind of
/// expiry.
const VERSION_1: &str = include_str!("version_1.sql");

#[test]
fn a_version_never_changes_as_files_have_it() {
    let steps = schema::STEPS.iter();
    let sums: Vec<u32> = steps.map(|step| crc32fast::hash(step.as_bytes())).collect();
    assert_eq!(sums, [3_988_150_623, 2_438_617_801]);
}

#[tokio::test]
async fn a_file_of_an_earlier_release_with_a_damaged_row_is_opened() {
    let place = Place::new();
    let file = place.connect();
    file.execute_batch(VERSION_1).unwrap();
    let loosen = "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'tasks';
         PRAGMA writable_schema = RESET;
         UPDATE tasks SET checksum = 'no number' WHERE id = 'dead';
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = sql || ' STRICT' WHERE name = 'tasks';
         PRAGMA writable_schema = RESET;";
    file.execute_batch(loosen).unwrap();
    drop(file);
    let store = SqliteStore::open(
        place.path(),
        Arc::new(VirtualClock::default()),
        StoreOptions::default(),
    );
    let store = store.await.unwrap();
    assert!(find(&store, "scheduled").await.is_some());
    let second = place.connect();
    let columns = "SELECT count(*) FROM pragma_table_info('tasks')
         WHERE name IN ('holder', 'errors', 'settled_by', 'note')";
    let columns: u32 = second.query_row(columns, [], |row| row.get(0)).unwrap();
    assert_eq!(columns, 4);
}

#[tokio::test]
async fn a_file_of_version_1_is_read() {
    let place = Place::new();
    place.connect().execute_batch(VERSION_1).unwrap();
    // It was written at the time that this clock shows.
    let clock = Arc::new(VirtualClock::default());
    let store = SqliteStore::open(place.path(), clock, StoreOptions::default());
    let store = store.await.unwrap();
    let states = [
        ("scheduled", TaskState::Scheduled),
        ("large", TaskState::Scheduled),
        ("running", TaskState::Running),
        ("dead", TaskState::Dead),
        ("done", TaskState::Done),
        ("cancelled", TaskState::Cancelled),
        ("expired", TaskState::Expired),
    ];
    for (id, state) in states {
        assert_eq!(find(&store, id).await.unwrap().state, state, "{id}");
    }
    let scheduled = find(&store, "scheduled").await.unwrap();
    assert_eq!(
        scheduled.message.as_deref(),
        Some(&b"message of scheduled"[..])
    );
    assert_eq!(scheduled.headers["shop"], "b\u{e4}rlin");
    let dead = find(&store, "dead").await.unwrap().history;
    assert_eq!(
        (dead.failures, dead.succeeded),
        (2, vec!["mail".to_owned()])
    );
    assert_eq!(dead.last_error.as_deref(), Some("no such order"));
    // What later versions have is as it was: nothing.
    let counts = store.stats(&usual_type()).await.unwrap();
    assert_eq!((counts.max_pending, counts.refused), (None, 0));
    is_sound(&store).await;
}

#[tokio::test]
async fn a_process_of_an_earlier_release_goes_on_in_a_file_with_later_columns() {
    let place = Place::new();
    let mut earlier = place.connect();
    for step in schema::STEPS {
        earlier.execute_batch(step).unwrap();
    }
    let version = schema::version(schema::STEPS);
    earlier
        .pragma_update(None, "user_version", version)
        .unwrap();
    earlier
        .pragma_update(None, "application_id", 0x646c_7971)
        .unwrap();
    let insert = "INSERT INTO types (namespace, name) VALUES ('default', ?1)";
    earlier.execute(insert, [usual_type().as_str()]).unwrap();
    let store = place.open().await;
    let limit = TypeSettings::default().fleet_concurrency(Some(3));
    store.configure_type(&usual_type(), &limit).await.unwrap();
    schema::check_version(&earlier, "the file").unwrap();
    let update = "UPDATE types SET paused_until = 0, max_pending = 5";
    assert_eq!(earlier.execute(update, []).unwrap(), 1);
    let stats = store.stats(&usual_type()).await.unwrap();
    assert_eq!(
        (stats.fleet_concurrency, stats.max_pending),
        (Some(3), Some(5))
    );
    // It drops types and leaves their figures, which nothing of it reads.
    let is_there = "SELECT count(*) FROM figures, actions";
    assert_eq!(earlier.query_row(is_there, [], |row| row.get(0)), Ok(0));
    // A task that it locks, and settles with an error, is shown without what it did not store.
    accept(&store, "1").await;
    let claim = "UPDATE tasks SET state = 1, at = 9e12, fence = 1767225600000123";
    assert_eq!(earlier.execute(claim, []).unwrap(), 1);
    let running = find(&store, "1").await.unwrap();
    assert_eq!(running.holder, None);
    assert_eq!(running.started_at.unwrap().as_millis(), 1_767_225_600_000);
    let retry = "UPDATE tasks SET state = 0, fence = 0, failures = 1, last_error = 'no van'";
    earlier.execute(retry, []).unwrap();
    let waiting = find(&store, "1").await.unwrap();
    assert_eq!(
        (waiting.waits_for, waiting.errors.len()),
        (Some(WaitsFor::Retry), 0)
    );
    // As each further start of this release finds it.
    schema::migrate(&mut earlier, "the file", schema::STEPS).unwrap();
}

/// An earlier release changes the fence settled last alone.
#[tokio::test]
async fn what_an_earlier_release_has_settled_is_repeated_by_any_end() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    let lock = claim(&store).await.unwrap().tasks.remove(0).lock;
    let settle = async |lock: &Lock, end: &AttemptEnd| {
        let settlement = Settlement::new(lock.clone(), end.clone());
        let outcomes = store.settle(&bucket(), vec![settlement]).await;
        outcomes.unwrap()[0]
    };
    let release = AttemptEnd::Release {
        after: std::time::Duration::from_hours(1),
        succeeded: Vec::new(),
    };
    let done = AttemptEnd::Done;
    assert_eq!(settle(&lock, &release).await, SettleOutcome::Settled);
    assert_eq!(settle(&lock, &done).await, SettleOutcome::LockLost);
    let by_it = "UPDATE tasks SET settled = settled + 5";
    assert_eq!(place.connect().execute(by_it, []).unwrap(), 1);
    let fence = lock.fence + 5;
    let later = Lock { fence, ..lock };
    for end in [release, done] {
        assert_eq!(settle(&later, &end).await, SettleOutcome::Settled);
    }
}

/// What an earlier release changes of a task leaves its note, but a row in the place of its row.
#[tokio::test]
async fn an_earlier_release_keeps_a_note_for_as_long_as_its_task_is_there() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    let lock = claim(&store).await.unwrap().tasks.remove(0).lock;
    let end = AttemptEnd::Retry {
        after: std::time::Duration::ZERO,
        error: "no van".to_owned(),
        succeeded: Vec::new(),
    };
    let settlement = Settlement::new(lock, end).with_note("pri=7");
    store.settle(&bucket(), vec![settlement]).await.unwrap();
    let earlier = place.connect();
    let retry = "UPDATE tasks SET failures = 2, last_error = 'no driver'";
    assert_eq!(earlier.execute(retry, []).unwrap(), 1);
    let history = find(&store, "1").await.unwrap().history;
    assert_eq!(history.note.as_deref(), Some("pri=7"));
    assert_eq!(history.last_error.as_deref(), Some("no driver"));
    let ended = "UPDATE tasks SET state = 3, fence = 0, last_error = NULL, headers = NULL, \
        message = NULL; UPDATE types SET scheduled = 0, ended = 1;";
    earlier.execute_batch(ended).unwrap();
    let history = find(&store, "1").await.unwrap().history;
    assert_eq!(history, delayq_core::AttemptHistory::default());
    is_sound(&store).await;
}

/// The tables and indexes of a file, as SQL.
fn schema_of(connection: &Connection) -> Vec<(String, Option<String>)> {
    let sql = "SELECT name, sql FROM sqlite_schema ORDER BY name";
    let mut select = connection.prepare(sql).unwrap();
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

#[tokio::test]
async fn a_new_file_is_like_one_that_grew_from_version_1() {
    let (new, grown) = (Place::new(), Place::new());
    grown.connect().execute_batch(VERSION_1).unwrap();
    new.open().await;
    grown.open().await;
    assert_eq!(schema_of(&new.connect()), schema_of(&grown.connect()));
}

const NEXT: &str = "ALTER TABLE tasks ADD COLUMN priority INTEGER NOT NULL DEFAULT 0";

#[tokio::test]
async fn a_migration_keeps_what_is_there_and_stops_older_releases() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    store.close().await;
    let steps = [schema::STEPS, &[NEXT]].concat();
    let mut connection = place.connect();
    schema::migrate(&mut connection, "the file", &steps).unwrap();
    schema::migrate(&mut connection, "the file", &steps).unwrap();
    let sql = "SELECT id, priority FROM tasks";
    let row = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(row, Ok(("1".to_owned(), 0)));
    let error = place.refusal().await;
    assert_eq!(
        error.to_string(),
        format!(
            "sqlite:{} has format version 3, this release reads up to 2: upgrade delayq",
            place.path().display()
        )
    );
}

#[tokio::test]
async fn a_migration_that_fails_changes_nothing() {
    let place = Place::new();
    place.open().await.close().await;
    let before = schema_of(&place.connect());
    let steps = [schema::STEPS, &[NEXT, "CREATE TABLE tasks (id)"]].concat();
    let mut connection = place.connect();
    schema::migrate(&mut connection, "the file", &steps).unwrap_err();
    drop(connection);
    assert_eq!(schema_of(&place.connect()), before);
    accept(&place.open().await, "1").await;
}

/// An earlier release knows nothing of requests to run again: it ends their tasks alone.
#[tokio::test]
async fn an_audit_runs_again_what_an_earlier_release_has_ended() {
    let place = Place::new();
    let store = place.open().await;
    for id in ["done", "cancelled"] {
        accept(&store, id).await;
    }
    claim(&store).await.unwrap();
    for id in ["done", "cancelled"] {
        let mut again = large_task(id, 10_000);
        again.again_if_running = true;
        let outcome = submit(&store, again).await;
        assert!(matches!(outcome, Ok(SubmitOutcome::RunsAgain { .. })));
    }
    let ends = "UPDATE tasks SET state = iif(id = 'done', 3, 4), fence = 0, message = NULL
        WHERE type > 0; UPDATE types SET running = 0, ended = 2;";
    place.connect().execute_batch(ends).unwrap();
    for repair in [false, true] {
        let report = store.audit(&usual_type(), repair).await.unwrap();
        let found: Vec<_> = report.problems.iter().map(|p| (&*p.id, &*p.what)).collect();
        let what = "has a request to run again and does not run";
        assert_eq!(found, [("cancelled", what), ("done", what)]);
    }
    is_sound(&store).await;
    let claimed = claim(&store).await.unwrap();
    assert_eq!(ids(&claimed), ["done"]);
    assert_eq!(claimed.tasks[0].message.len(), 10_000);
    let cancelled = find(&store, "cancelled").await.unwrap();
    assert_eq!(cancelled.state, TaskState::Cancelled);
}

#[tokio::test]
async fn an_audit_finds_more_requests_than_it_reads_at_once() {
    const MANY: usize = 300;
    let place = Place::new();
    let store = place.open().await;
    let ids: Vec<_> = (0..MANY).map(|n| format!("id{n}")).collect();
    for id in &ids {
        accept(&store, id).await;
    }
    while !claim(&store).await.unwrap().tasks.is_empty() {}
    for id in &ids {
        let mut again = large_task(id, 10);
        again.again_if_running = true;
        let outcome = submit(&store, again).await;
        assert!(matches!(outcome, Ok(SubmitOutcome::RunsAgain { .. })));
    }
    let ends = "UPDATE tasks SET state = 3, fence = 0, message = NULL WHERE type > 0;
        UPDATE types SET running = 0, ended = 300;";
    place.connect().execute_batch(ends).unwrap();
    for repair in [false, true] {
        let report = store.audit(&usual_type(), repair).await.unwrap();
        assert_eq!(report.problems.len(), MANY);
    }
    is_sound(&store).await;
}
