//! Calls in a transaction of the application.

use delayq_core::job::When;
use delayq_core::state::TaskState;
use delayq_core::store::{CancelOutcome, ChangeOutcome};
use rusqlite::TransactionBehavior::Immediate;

use super::*;

#[tokio::test]
async fn a_task_shares_the_fate_of_the_transaction() {
    let place = Place::new();
    let store = place.open().await;
    let mut shop = place.connect();
    shop.execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
        .unwrap();
    let outside = store.within(&shop).unwrap_err();
    assert!(outside.to_string().contains("no open transaction"));

    let tx = shop.transaction_with_behavior(Immediate).unwrap();
    tx.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    let sent = store.within(&tx).unwrap().send(&[task("1")]).unwrap();
    assert!(matches!(sent[..], [Ok(SubmitOutcome::Accepted { .. })]));
    tx.rollback().unwrap();
    assert_eq!(find(&store, "1").await, None);

    accept(&store, "4").await;
    accept(&store, "5").await;
    let tx = shop.transaction_with_behavior(Immediate).unwrap();
    tx.execute("INSERT INTO orders VALUES (2)", []).unwrap();
    let within = store.within(&tx).unwrap();
    let sent = within.send(&[task("2"), task("2"), large_task("2", 6)]);
    let sent = sent.unwrap();
    // A refusal of a task leaves the transaction as it is.
    assert!(matches!(sent[1], Ok(SubmitOutcome::AlreadyExists { .. })));
    assert!(matches!(sent[2], Ok(SubmitOutcome::Conflict { .. })));
    let of = usual_type();
    assert_eq!(
        within.cancel(&of, &id("4")).unwrap(),
        CancelOutcome::Cancelled
    );
    let later = When::After(Duration::from_hours(1));
    let moved = within.reschedule(&of, &id("5"), later).unwrap();
    assert!(matches!(moved, ChangeOutcome::Changed { .. }));
    let updated = within.update(&of, &id("2"), b"new").unwrap();
    assert!(matches!(updated, ChangeOutcome::Changed { .. }));
    let inside = within.find(&of, &id("2")).unwrap().unwrap();
    assert_eq!(inside.message.as_deref(), Some(&b"new"[..]));
    assert_eq!(find(&store, "2").await, None, "it is not committed yet");
    tx.commit().unwrap();
    let found = find(&store, "4").await.unwrap();
    assert_eq!(found.state, TaskState::Cancelled);
    let claimed = claim(&store).await.unwrap();
    assert_eq!(ids(&claimed), ["2"]);
    is_sound(&store).await;
}

#[tokio::test]
async fn a_connection_to_another_file_is_refused() {
    let (place, other) = (Place::new(), Place::new());
    let store = place.open().await;
    drop(other.open().await);
    let lock = other.lock();
    let refused = store.within(&lock).unwrap_err();
    assert!(refused.to_string().contains("not to the file"), "{refused}");
    // Somebody else writes: nothing of the call is applied, and the transaction goes on.
    let writes = place.lock();
    let mut reads = place.connect();
    reads.busy_timeout(Duration::ZERO).unwrap();
    let tx = reads.transaction().unwrap();
    let busy = store.within(&tx).unwrap().send(&[task("1")]).unwrap_err();
    assert!(matches!(busy, Error::Unavailable { .. }), "{busy}");
    release(&writes);
    drop(tx);
    let tx = reads.transaction_with_behavior(Immediate).unwrap();
    let sent = store.within(&tx).unwrap().send(&[task("1")]).unwrap();
    assert!(matches!(sent[..], [Ok(SubmitOutcome::Accepted { .. })]));
    tx.commit().unwrap();
    assert!(find(&store, "1").await.is_some());
}
