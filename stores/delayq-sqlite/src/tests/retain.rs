//! Ended tasks: forgotten after the retention, and the oldest when there are too many.

use delayq_core::store::CancelOutcome;
use delayq_core::time::{VirtualClock, hours, seconds};

use super::*;

async fn cancel(store: &Arc<SqliteStore>, task: &str) {
    let cancelled = store.cancel(&usual_type(), &id(task)).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Returns once `sql` finds `number`; the maintenance runs every second.
async fn comes_to(connection: &Connection, sql: &str, wanted: i64) {
    let comes = async {
        while number(connection, sql) != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(seconds(30), comes).await.unwrap();
}

#[tokio::test]
async fn ended_tasks_are_forgotten_while_nothing_happens() {
    let place = Place::new();
    let options = StoreOptions {
        retention: Duration::from_millis(1),
        ..StoreOptions::default()
    };
    let store = place.try_open(options).await.unwrap();
    accept(&store, "1").await;
    let claimed = claim(&store).await.unwrap();
    store.settle(&bucket(), done(&claimed)).await.unwrap();
    comes_to(&place.connect(), "SELECT count(*) FROM tasks", 0).await;
    is_sound(&store).await;
}

/// Else a type in which tasks end faster than the maintenance forgets them would grow for ever.
#[tokio::test]
async fn ended_tasks_are_forgotten_as_others_end() {
    let place = Place::new();
    let clock = VirtualClock::default();
    let options = StoreOptions::default();
    let retention = options.retention;
    let store = SqliteStore::open(place.path(), Arc::new(clock.clone()), options);
    let store = store.await.unwrap();
    for task in ["1", "2"] {
        accept(&store, task).await;
        cancel(&store, task).await;
        clock.advance(retention);
    }
    let select = "SELECT id FROM tasks";
    let left = place.connect().query_row(select, [], |row| row.get(0));
    assert_eq!(left, Ok("2".to_owned()), "the first one is forgotten");
}

/// How many ended tasks the crowded store remembers.
const MOST: usize = 1_000;

/// A store that remembers `more` ended tasks than it may, within their retention, and one that is
/// scheduled.
async fn crowded(place: &Place, more: usize) -> Arc<SqliteStore> {
    let options = StoreOptions {
        retention: hours(10),
        remembered: MOST,
        ..StoreOptions::default()
    };
    let store = place.try_open(options).await.unwrap();
    accept(&store, "new").await;
    let tasks = MOST + more;
    let first = SystemClock.now().minus(hours(1)).as_millis();
    let fill = format!(
        "BEGIN IMMEDIATE;
         WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {tasks})
         INSERT INTO tasks (type, id, state, at, due, submitted, checksum)
             SELECT types.id, 'old-' || n, 3 + n % 3, {first} + n, 0, 0, 0 FROM numbers, types;
         UPDATE types SET ended = {tasks};
         COMMIT;"
    );
    place.connect().execute_batch(&fill).unwrap();
    store
}

const ENDED: &str = "SELECT count(*) FROM tasks WHERE state >= 3";
const OLDEST: &str = "SELECT min(at) - (SELECT max(at) FROM tasks WHERE id LIKE 'old-%') FROM tasks \
     WHERE state >= 3";

#[tokio::test]
async fn the_oldest_ended_tasks_beyond_the_most_are_forgotten_as_others_end() {
    let place = Place::new();
    let store = crowded(&place, 9).await;
    cancel(&store, "new").await;
    let rows = place.connect();
    let most = i64::try_from(MOST).unwrap();
    assert_eq!(number(&rows, ENDED), most);
    // All of the latest are there: each ended a millisecond after the one before.
    assert_eq!(number(&rows, OLDEST), 2 - most);
    assert_eq!(number(&rows, "SELECT ended FROM types"), most);
    assert!(find(&store, "new").await.is_some());
    // The tenth is the latest one that is forgotten, ten hours before its retention is over.
    let stats = store.stats(&usual_type()).await.unwrap();
    let forgotten = number(&rows, "SELECT min(at) - 1 FROM tasks WHERE state >= 3");
    let since = Timestamp::from_millis(forgotten);
    assert_eq!(
        (stats.remembered, stats.remembered_since),
        (MOST as u64, Some(since))
    );
}

#[tokio::test]
async fn the_oldest_ended_tasks_beyond_the_most_are_forgotten_while_nothing_happens() {
    let place = Place::new();
    let store = crowded(&place, 9).await;
    let rows = place.connect();
    let most = i64::try_from(MOST).unwrap();
    comes_to(&rows, ENDED, most).await;
    assert_eq!(number(&rows, OLDEST), 1 - most);
    assert!(find(&store, "new").await.is_some());
}
