//! Damage of every kind, planted with SQL: the audit finds it, mends it, and no task is lost.

use delayq_core::state::TaskState;
use delayq_core::store::EndCause;

use super::*;

/// A file with tasks `1` to `3` scheduled, `large` with a large message, and `held` running.
async fn sound_file() -> (Place, Arc<SqliteStore>) {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "held").await;
    claim(&store).await.unwrap();
    for id in ["1", "2", "3"] {
        accept(&store, id).await;
    }
    submit(&store, large_task("large", 10_000)).await.unwrap();
    (place, store)
}

async fn audit(store: &Arc<SqliteStore>, repair: bool) -> Vec<(String, String)> {
    let report = store.audit(&usual_type(), repair).await.unwrap();
    assert!(
        report
            .problems
            .iter()
            .all(|problem| problem.repaired == repair)
    );
    let problems = report.problems.into_iter();
    problems.map(|problem| (problem.id, problem.what)).collect()
}

/// The audit finds exactly `problem`, mends it, and finds nothing after that.
async fn is_mended(damage: &str, problem: (&str, &str)) -> (Place, Arc<SqliteStore>) {
    let (place, store) = sound_file().await;
    place.connect().execute_batch(damage).unwrap();
    let expected = [(problem.0.to_owned(), problem.1.to_owned())];
    assert_eq!(audit(&store, false).await, expected, "{damage}");
    assert_eq!(audit(&store, true).await, expected, "{damage}");
    assert_eq!(audit(&store, false).await, [], "{damage}");
    let stats = store.stats(&usual_type()).await.unwrap();
    assert_eq!(stats.scheduled + stats.running + stats.dead, 5, "{damage}");
    (place, store)
}

async fn state(store: &Arc<SqliteStore>, id: &str) -> Option<TaskState> {
    find(store, id).await.map(|info| info.state)
}

#[tokio::test]
async fn an_unknown_state_is_found() {
    let damage = "UPDATE tasks SET state = 9 WHERE id = '2'; \
         UPDATE types SET scheduled = scheduled - 1";
    let problem = ("2", "corrupt: its stored state is unknown");
    let (_place, store) = is_mended(damage, problem).await;
    assert_eq!(state(&store, "2").await, Some(TaskState::Dead));
}

#[tokio::test]
async fn an_impossible_id_is_found_and_replaced() {
    let damage = "UPDATE tasks SET id = 'a b' WHERE id = '2'";
    let problem = ("a b", "corrupt: its stored id \"a b\" is not a task id");
    let (_place, store) = is_mended(damage, problem).await;
    let dead = store.list(&usual_type(), TaskState::Dead, None, 10).await;
    let dead = dead.unwrap().tasks;
    assert!(dead[0].id.as_str().starts_with("corrupt-"), "{dead:?}");
    assert_eq!(dead[0].message.as_deref(), Some(&b"mmmmm"[..]));
}

#[tokio::test]
async fn a_running_task_without_a_lock_is_scheduled() {
    let damage = "UPDATE tasks SET fence = 0 WHERE id = 'held'";
    let (_place, store) = is_mended(damage, ("held", "runs without a lock")).await;
    assert_eq!(state(&store, "held").await, Some(TaskState::Scheduled));
}

#[tokio::test]
async fn a_lock_on_a_task_that_does_not_run_is_removed() {
    for damage in ["fence = 5", "cancel = 1"] {
        let damage = format!("UPDATE tasks SET {damage} WHERE id = '2'");
        let problem = ("2", "has a lock or a cancel request and does not run");
        let (_place, store) = is_mended(&damage, problem).await;
        assert_eq!(state(&store, "2").await, Some(TaskState::Scheduled));
    }
}

#[tokio::test]
async fn a_fence_that_was_never_given_raises_the_next_one() {
    let damage = "UPDATE tasks SET fence = 9007199254740000 WHERE id = 'held'";
    let problem = (
        "held",
        "its fence 9007199254740000 is above the largest one given",
    );
    let (_place, store) = is_mended(damage, problem).await;
    let next = claim(&store).await.unwrap();
    assert_eq!(next.tasks[0].lock.fence, 9_007_199_254_740_001);
}

#[tokio::test]
async fn an_impossible_time_becomes_now() {
    let damage = "UPDATE tasks SET at = -5 WHERE id = '2'";
    let (_place, store) = is_mended(damage, ("2", "its time -5 is no time")).await;
    assert_eq!(state(&store, "2").await, Some(TaskState::Scheduled));
}

/// The checksum cannot tell: it has -1 for none.
#[tokio::test]
async fn an_expiry_before_1970_is_found() {
    let damage = "UPDATE tasks SET expires_at = -1 WHERE id = '2'";
    let problem = ("2", "corrupt: the expiry is before 1970");
    let (_place, store) = is_mended(damage, problem).await;
    assert_eq!(state(&store, "2").await, Some(TaskState::Dead));
}

#[tokio::test]
async fn a_wrong_count_is_found() {
    let damage = "UPDATE types SET dead = 7";
    is_mended(damage, ("", "7 dead tasks are noted, 0 are there")).await;
}

#[tokio::test]
async fn a_large_message_without_a_task_is_found() {
    let damage = "INSERT INTO bodies VALUES (77, x'00')";
    is_mended(damage, ("", "message 77 has no task")).await;
}

#[tokio::test]
async fn a_task_without_its_large_message_is_found() {
    let (place, store) = sound_file().await;
    place.connect().execute_batch("DELETE FROM bodies").unwrap();
    let found = audit(&store, true).await;
    assert_eq!(found.len(), 1);
    assert!(
        found[0].1.starts_with("corrupt: the record's checksum is"),
        "{found:?}"
    );
    assert_eq!(state(&store, "large").await, Some(TaskState::Dead));
    assert_eq!(audit(&store, false).await, []);
}

#[tokio::test]
async fn damaged_tasks_are_told_when_they_are_looked_at_and_when_they_are_claimed() {
    let (place, store) = sound_file().await;
    let damage = "UPDATE tasks SET headers = '{' WHERE id = '1'; \
         UPDATE tasks SET expires_at = 1 WHERE id = '2'; \
         UPDATE tasks SET id = 'a b', failures = -1, last_error = CAST(x'ff' AS TEXT) WHERE id = '3'";
    place.connect().execute_batch(damage).unwrap();
    let told = find(&store, "1").await.unwrap().history.last_error.unwrap();
    assert!(told.starts_with("corrupt: "), "{told}");
    let claimed = claim(&store).await.unwrap();
    assert_eq!(ids(&claimed), ["large"]);
    assert_eq!(claimed.ended.len(), 3);
    assert!(
        claimed
            .ended
            .iter()
            .all(|end| end.cause == EndCause::Corrupt)
    );
    let dead = store.list(&usual_type(), TaskState::Dead, None, 10).await;
    for info in dead.unwrap().tasks {
        assert!(info.history.last_error.unwrap().starts_with("corrupt: "));
        assert_eq!(info.message.as_deref(), Some(&b"mmmmm"[..]));
    }
    assert_eq!(audit(&store, false).await, []);
}

#[tokio::test]
async fn a_lost_place_and_a_damaged_record_at_once_are_mended() {
    let (place, store) = sound_file().await;
    // The index does not hear of what happens while it is hidden.
    let damage = "PRAGMA writable_schema = ON;
         CREATE TEMP TABLE hidden AS SELECT type, name, tbl_name, rootpage, sql
             FROM sqlite_schema WHERE name = 'tasks_place';
         DELETE FROM sqlite_schema WHERE name = 'tasks_place';
         PRAGMA writable_schema = RESET;
         UPDATE tasks SET at = at + 1, message = x'00' WHERE id = '2';
         PRAGMA writable_schema = ON;
         INSERT INTO sqlite_schema SELECT * FROM hidden;
         PRAGMA writable_schema = RESET;";
    place.connect().execute_batch(damage).unwrap();
    let found = audit(&store, false).await;
    assert_eq!(
        found.len(),
        3,
        "a lost place, a place without a task, a wrong checksum: {found:?}"
    );
    assert_eq!(audit(&store, true).await, found);
    assert_eq!(audit(&store, false).await, []);
    assert_eq!(state(&store, "2").await, Some(TaskState::Dead));
}

/// Only a file that SQLite calls damaged has its indexes made again, which takes a second per
/// million tasks.
#[tokio::test]
async fn a_call_that_fails_leaves_the_file_alone() {
    let (place, store) = sound_file().await;
    let other = place.connect();
    let damage = "UPDATE tasks SET state = 9 WHERE id = '2'";
    other.execute_batch(damage).unwrap();
    let version = || -> i64 {
        let sql = "PRAGMA data_version";
        other.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let before = version();
    let error = store.cancel(&usual_type(), &id("2")).await.unwrap_err();
    assert!(matches!(&error, Error::Corrupt { .. }), "{error}");
    assert_eq!(version(), before);
}

/// A type's row, damaged: refused with its column named, and mended by an audit.
async fn is_refused(damage: &str, column: &str, value: &str) -> (Place, Arc<SqliteStore>) {
    let (place, store) = sound_file().await;
    let damage = format!("UPDATE types SET {damage}");
    place.connect().execute_batch(&damage).unwrap();
    let held = find_lock(&place);
    let errors = [
        claim(&store).await.map(drop).unwrap_err(),
        submit(&store, task("new")).await.map(drop).unwrap_err(),
        store
            .extend(&bucket(), vec![held], Duration::from_mins(1))
            .await
            .map(drop)
            .unwrap_err(),
        store.stats(&usual_type()).await.map(drop).unwrap_err(),
    ];
    for error in errors {
        let Error::Corrupt { key, detail } = &error else {
            panic!("{damage}: {error}");
        };
        assert_eq!(
            key,
            &format!("types, row 1 (order.cancel), column {column}")
        );
        assert!(detail.starts_with(value), "{detail}");
    }
    let problem = format!("the type's {column} is {value}");
    let found = audit(&store, true).await;
    assert!(found.contains(&(String::new(), problem)), "{found:?}");
    assert_eq!(audit(&store, false).await, [], "{damage}");
    (place, store)
}

fn find_lock(place: &Place) -> delayq_core::task::Lock {
    let sql = "SELECT fence FROM tasks WHERE id = 'held'";
    let fence: i64 = place
        .connect()
        .query_row(sql, [], |row| row.get(0))
        .unwrap();
    let fence = fence.unsigned_abs();
    delayq_core::task::Lock {
        id: id("held"),
        fence,
    }
}

/// 305 starts had 16 fences: above 2^53 the next fence was the same again.
#[tokio::test]
async fn a_fence_beyond_what_stays_exact_is_refused_and_mended() {
    for value in ["9007199254740992", "9223372036854775807", "-1"] {
        let damage = format!("fence = {value}");
        let (place, store) = is_refused(&damage, "fence", value).await;
        let held = find_lock(&place).fence;
        let claimed = claim(&store).await.unwrap();
        assert_eq!(claimed.tasks.len(), 4);
        let fences: std::collections::BTreeSet<_> =
            claimed.tasks.iter().map(|task| task.lock.fence).collect();
        assert_eq!(fences.len(), 4);
        assert!(fences.iter().all(|fence| *fence > held && *fence < 1 << 53));
    }
}

#[tokio::test]
async fn every_other_garbage_in_the_row_of_a_type_is_refused_and_mended() {
    for column in [
        "paused_until",
        "scheduled",
        "running",
        "dead",
        "ended",
        "tat",
        "refused",
    ] {
        let damage = format!("{column} = -7");
        let (_place, store) = is_refused(&damage, column, "-7").await;
        assert_eq!(claim(&store).await.unwrap().tasks.len(), 4, "{column}");
    }
    let (_place, store) = is_refused("max_pending = -7", "max_pending", "-7").await;
    accept(&store, "new").await;
    is_refused(
        "paused_until = 253402207200000",
        "paused_until",
        "253402207200000",
    )
    .await;
}

#[tokio::test]
async fn the_last_fence_is_given_and_none_after_it() {
    let (place, store) = sound_file().await;
    let damage = "UPDATE types SET fence = 9007199254740990";
    place.connect().execute_batch(damage).unwrap();
    let mut one = request();
    one.limit = 1;
    let claimed = store.claim(&bucket(), &one).await.unwrap();
    assert_eq!(claimed.tasks[0].lock.fence, (1 << 53) - 1);
    let error = store.claim(&bucket(), &one).await.unwrap_err();
    assert!(
        matches!(&error, Error::Corrupt { key, .. } if key.contains("column fence")),
        "{error}"
    );
    assert_eq!(store.stats(&usual_type()).await.unwrap().running, 2);
}

#[tokio::test]
async fn a_task_with_an_impossible_fence_is_scheduled_again() {
    for value in ["9007199254740992", "-1"] {
        let damage = format!("UPDATE tasks SET fence = {value} WHERE id = 'held'");
        let problem = format!("its fence {value} is no fence");
        let (_place, store) = is_mended(&damage, ("held", &problem)).await;
        assert_eq!(state(&store, "held").await, Some(TaskState::Scheduled));
        assert_eq!(claim(&store).await.unwrap().tasks.len(), 5);
    }
}

/// One damaged namespace flooded the log: 200,000 lines.
#[tokio::test]
async fn many_damaged_tasks_leave_a_readable_log() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tracing::{Event, Metadata, Subscriber, span};

    /// Counts lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<AtomicUsize>);

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            if *event.metadata().level() <= tracing::Level::WARN {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    let place = Place::new();
    let store = place.open().await;
    let tasks = (0..1_000).map(|n| task(&n.to_string())).collect();
    assert!(store.submit(tasks).await.iter().all(Result::is_ok));
    store.close().await;
    let damage = "UPDATE tasks SET id = 'a b ' || id";
    let connection = place.connect();
    connection.execute_batch(damage).unwrap();
    let lines = Lines::default();
    // The readers' work on this thread, where the lines are counted.
    let context = crate::rows::Context {
        store: "here".to_owned(),
        clock: Arc::new(SystemClock),
        namespace: delayq_core::name::Namespace::default(),
        retention: Duration::ZERO,
        remembered: 1,
    };
    tracing::subscriber::with_default(lines.clone(), || {
        let mut tx = Tx::new(&connection, &context);
        let tasks = tx.known(&usual_type()).unwrap();
        for _ in 0..10 {
            let page = crate::operations::query::list(&tasks, TaskState::Scheduled, None, 100);
            assert_eq!(page.unwrap().tasks, []);
        }
    });
    let lines = lines.0.load(Ordering::Relaxed);
    assert!((1..=10).contains(&lines), "{lines}");
}
