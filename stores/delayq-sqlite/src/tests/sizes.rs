//! Large messages and large batches: where they are kept, and how much is done at a time.

use delayq_core::state::TaskState;

use super::*;
use crate::store::steps;

const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_message_above_the_bound_is_kept_beside_its_row() {
    let place = Place::new();
    let store = place.open().await;
    let rows = place.connect();
    for (bytes, beside) in [(2_047, 0), (2_048, 0), (2_049, 1), (4_096, 2)] {
        submit(&store, large_task(&bytes.to_string(), bytes))
            .await
            .unwrap();
        let count = "SELECT count(*) FROM bodies";
        let found: i64 = rows.query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(found, beside, "{bytes}");
    }
}

#[tokio::test]
async fn a_large_message_is_freed_with_its_task() {
    let place = Place::new();
    let store = place.open().await;
    let rows = place.connect();
    let beside = || -> i64 {
        let count = "SELECT count(*) FROM bodies";
        rows.query_row(count, [], |row| row.get(0)).unwrap()
    };
    for task in ["ended", "purged", "updated"] {
        submit(&store, large_task(task, 10_000)).await.unwrap();
        assert_eq!(beside(), 1, "{task}");
        match task {
            "ended" => drop(store.cancel(&usual_type(), &id(task)).await.unwrap()),
            "purged" => {
                let purged = store.purge(&usual_type(), TaskState::Scheduled).await;
                assert_eq!(purged, Ok(1));
            }
            _ => drop(
                store
                    .update(&usual_type(), &id(task), vec![1])
                    .await
                    .unwrap(),
            ),
        }
        assert_eq!(beside(), 0, "{task}");
    }
}

#[tokio::test]
async fn a_claim_reads_eight_mib_of_messages_and_leaves_the_rest_to_the_next() {
    let place = Place::new();
    let store = place.open().await;
    for id in 0..9 {
        submit(&store, large_task(&id.to_string(), MIB))
            .await
            .unwrap();
    }
    let first = claim(&store).await.unwrap();
    assert_eq!(first.tasks.len(), 8);
    assert!(first.next_in == Some(Duration::ZERO), "there is more");
    let second = claim(&store).await.unwrap();
    assert_eq!(second.tasks.len(), 1);
}

#[test]
fn a_batch_is_split_by_the_number_of_its_tasks_and_by_their_size() {
    let sizes = |tasks: Vec<NewTask>| -> Vec<usize> { steps(tasks).iter().map(Vec::len).collect() };
    let batch = |tasks: usize, bytes| {
        (0..tasks)
            .map(|n| large_task(&n.to_string(), bytes))
            .collect()
    };
    assert_eq!(sizes(batch(0, 5)), [0; 0]);
    assert_eq!(sizes(batch(1_000, 5)), [1_000]);
    assert_eq!(sizes(batch(2_001, 5)), [1_000, 1_000, 1]);
    assert_eq!(sizes(batch(9, MIB)), [4, 4, 1]);
}
