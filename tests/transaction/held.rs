//! Transactions that stay open for longer than a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use delayq_plugin::{CancelOutcome, TaskState, WorkerOptions, seconds};
use tokio::sync::Notify;

use crate::shop::{PAY, SHORT, Shop, pay, pay_job};

/// Longer than the lock.
const LONG: std::time::Duration = seconds(3);

#[tokio::test]
async fn nobody_takes_over_what_an_open_transaction_has_ended() {
    let shop = Shop::open("long");
    let running = shop
        .start(SHORT, |mut call| async move {
            let mut tx = call.client.transaction().await?;
            pay(&mut tx, &call.order).await?;
            call.cx.settle_within(&mut tx).await?;
            tokio::time::sleep(LONG).await;
            assert!(!call.cx.is_cancelled(), "its lock is not lost");
            tx.commit().await?;
            Ok(())
        })
        .await;
    let beside = shop.start_paying().await;
    running.tasks.send(pay_job("o-1")).await.unwrap();
    running.reaches("o-1", TaskState::Done).await;
    assert_eq!(shop.paid("o-1"), 1);
    let lost = async |of: &crate::shop::Running| of.plugin.health().await.handlers[0].locks_lost;
    assert_eq!(lost(&running).await + lost(&beside).await, 0);
    running.plugin.shutdown(seconds(1)).await;
    beside.plugin.shutdown(seconds(1)).await;
}

/// A transaction of the application holds the row of a running task, so that its lock cannot be
/// extended, and lets it go once the lock has expired.
#[tokio::test]
async fn a_worker_whose_task_is_held_by_others_is_told_in_time() {
    let shop = Shop::open("held");
    let at_once = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&at_once);
    let running = shop
        .start(SHORT, move |call| {
            let at_once = Arc::clone(&counted);
            async move {
                let beside = at_once.fetch_add(1, Ordering::SeqCst);
                if beside == 0 && call.cx.attempt() == 1 {
                    call.cx.cancelled().await;
                }
                at_once.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(beside, 0, "two attempts at a time");
                Ok(())
            }
        })
        .await;
    running.tasks.send(pay_job("o-1")).await.unwrap();
    running.reaches("o-1", TaskState::Running).await;
    let mut client = shop.client().await;
    let mut tx = client.transaction().await.unwrap();
    let cancelled = running.tasks.cancel(PAY, "o-1").within(&mut tx).await;
    assert_eq!(cancelled.unwrap(), CancelOutcome::Running);
    tokio::time::sleep(LONG).await;
    assert_eq!(at_once.load(Ordering::SeqCst), 0, "it was told to stop");
    tx.rollback().await.unwrap();
    running.reaches("o-1", TaskState::Done).await;
    running.plugin.shutdown(seconds(1)).await;
}

/// A transaction of the application has cancelled a running task, and stays open while that ends.
#[tokio::test]
async fn an_end_that_a_transaction_holds_up_holds_up_no_other() {
    let shop = Shop::open("beside");
    let ends = Arc::new(Notify::new());
    let waits = Arc::clone(&ends);
    let running = shop
        .start(WorkerOptions::default(), move |call| {
            let waits = Arc::clone(&waits);
            async move {
                if call.order == "o-1" {
                    waits.notified().await;
                }
                Ok(())
            }
        })
        .await;
    running.tasks.send(pay_job("o-1")).await.unwrap();
    running.reaches("o-1", TaskState::Running).await;
    let mut client = shop.client().await;
    let tx = client.transaction().await.unwrap();
    let cancel = "SELECT outcome FROM delayq.cancel($1, 'o-1')";
    tx.query(cancel, &[&PAY]).await.unwrap();
    ends.notify_one();
    running.tasks.send(pay_job("o-2")).await.unwrap();
    running.reaches("o-2", TaskState::Done).await;
    tx.rollback().await.unwrap();
    running.reaches("o-1", TaskState::Done).await;
    let lost = running.plugin.health().await.handlers[0].locks_lost;
    assert_eq!((running.calls(), lost), (2, 0));
    running.plugin.shutdown(seconds(1)).await;
}
