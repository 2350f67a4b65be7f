//! Attempts that their workers end in a transaction.

use std::future::pending;

use delayq_plugin::{
    DelayQueueJob, Error, FailureCause, RetryPolicy, TaskEventKind, TaskEvents, TaskState,
    WorkerOptions, millis, seconds,
};
use delayq_tests::rig::soon;

use crate::shop::{PAY, SHORT, Shop, pay, pay_job};

/// The events of a task up to its success.
async fn until_success(events: &mut TaskEvents, id: &str) -> Vec<TaskEventKind> {
    let mut kinds = Vec::new();
    soon("its success", async {
        loop {
            let event = events.next().await.unwrap();
            if event.id.as_str() != id {
                continue;
            }
            let is_last = matches!(event.kind, TaskEventKind::Succeeded { .. });
            kinds.push(event.kind);
            if is_last {
                return;
            }
        }
    })
    .await;
    kinds
}

fn quick_retries() -> WorkerOptions {
    let retry = RetryPolicy {
        base: millis(10),
        ..RetryPolicy::DEFAULT
    };
    WorkerOptions { retry, ..SHORT }
}

#[tokio::test]
async fn the_commit_of_the_worker_is_the_end_of_its_task() {
    let shop = Shop::open("settled");
    let running = shop
        .start(SHORT, |mut call| async move {
            let mut tx = call.client.transaction().await?;
            pay(&mut tx, &call.order).await?;
            call.cx.reply(&"paid")?;
            call.cx.then(DelayQueueJob::raw("order.ship", "ship"))?;
            call.cx.settle_within(&mut tx).await?;
            tx.commit().await?;
            Ok(())
        })
        .await;
    let mut events = running.tasks.events();
    let reply = running
        .tasks
        .send_and_wait(pay_job("o-1"), seconds(20))
        .await
        .unwrap();
    assert_eq!(reply.json::<String>().unwrap(), "paid");
    let kinds = until_success(&mut events, "o-1").await;
    let is_failure = |kind: &TaskEventKind| matches!(kind, TaskEventKind::Failed { .. });
    assert!(!kinds.iter().any(is_failure), "{kinds:?}");
    assert_eq!((shop.paid("o-1"), running.calls()), (1, 1));
    let ships = "SELECT count(*) FROM delayq.tasks t JOIN delayq.types y ON t.type = y.id \
                 WHERE y.name = 'order.ship'";
    assert_eq!(shop.sql(ships), "1");
    let stats = running.tasks.stats(PAY).await.unwrap();
    assert_eq!((stats.running, stats.totals.done), (0, 1));
    let health = running.plugin.health().await;
    assert_eq!(health.handlers[0].failed, 0);
    running.plugin.shutdown(seconds(1)).await;
}

#[tokio::test]
async fn a_transaction_that_is_not_committed_is_told_and_tried_again() {
    let shop = Shop::open("not_committed");
    let running = shop
        .start(quick_retries(), |mut call| async move {
            let mut tx = call.client.transaction().await?;
            pay(&mut tx, &call.order).await?;
            call.cx.then(DelayQueueJob::raw("order.ship", "ship"))?;
            call.cx.settle_within(&mut tx).await?;
            match call.number {
                1 => tx.rollback().await?,
                // Dropped: its client rolls it back.
                2 => drop(tx),
                3 => return Err("its own error".into()),
                _ => tx.commit().await?,
            }
            Ok(())
        })
        .await;
    let mut events = running.tasks.events();
    running.tasks.send(pay_job("o-1")).await.unwrap();
    let kinds = until_success(&mut events, "o-1").await;
    let errors: Vec<_> = kinds
        .iter()
        .filter_map(|kind| match kind {
            TaskEventKind::Failed { error, .. } => Some(error.as_str()),
            _ => None,
        })
        .collect();
    let told = "the transaction of settle_within was not committed";
    assert_eq!(errors, [told, told, "its own error"]);
    running.reaches("o-1", TaskState::Done).await;
    assert_eq!((shop.paid("o-1"), running.calls()), (1, 4));
    assert_eq!(shop.sql("SELECT count(*) FROM delayq.tasks"), "2");
    assert_eq!(running.plugin.health().await.handlers[0].failed, 3);
    running.plugin.shutdown(seconds(1)).await;
}

#[tokio::test]
async fn a_worker_that_fails_after_the_commit_has_done_its_task() {
    let shop = Shop::open("after_commit");
    let options = WorkerOptions {
        timeout: millis(700),
        ..quick_retries()
    };
    let running = shop
        .start(options, |mut call| async move {
            let mut tx = call.client.transaction().await?;
            pay(&mut tx, &call.order).await?;
            call.cx.settle_within(&mut tx).await?;
            tx.commit().await?;
            match &*call.order {
                "panics" => panic!("after the commit"),
                "hangs" => pending().await,
                _ => Err("after the commit".into()),
            }
        })
        .await;
    for id in ["panics", "hangs", "fails"] {
        let mut events = running.tasks.events();
        running.tasks.send(pay_job(id)).await.unwrap();
        let kinds = until_success(&mut events, id).await;
        let is_failure = |kind: &TaskEventKind| matches!(kind, TaskEventKind::Failed { .. });
        assert!(!kinds.iter().any(is_failure), "{id}: {kinds:?}");
        running.reaches(id, TaskState::Done).await;
        assert_eq!(shop.paid(id), 1, "{id}");
    }
    assert_eq!(running.calls(), 3);
    assert_eq!(FailureCause::default(), FailureCause::Error);
    running.plugin.shutdown(seconds(1)).await;
}

#[tokio::test]
async fn a_worker_may_try_again_after_a_rollback_and_has_one_end() {
    let shop = Shop::open("twice");
    let running = shop
        .start(SHORT, |mut call| async move {
            call.cx.then(DelayQueueJob::raw("order.ship", "ship"))?;
            for last in [false, true] {
                let mut tx = call.client.transaction().await?;
                pay(&mut tx, &call.order).await?;
                call.cx.settle_within(&mut tx).await?;
                let twice = call.cx.settle_within(&mut tx).await.unwrap_err();
                assert!(matches!(twice, Error::LockLost { .. }), "{twice}");
                assert!(twice.to_string().contains("settled before"), "{twice}");
                if last {
                    tx.commit().await?;
                } else {
                    tx.rollback().await?;
                }
            }
            let mut tx = call.client.transaction().await?;
            let over = call.cx.settle_within(&mut tx).await.unwrap_err();
            assert!(matches!(over, Error::LockLost { .. }), "{over}");
            Ok(())
        })
        .await;
    running.tasks.send(pay_job("o-1")).await.unwrap();
    running.reaches("o-1", TaskState::Done).await;
    assert_eq!((shop.paid("o-1"), running.calls()), (1, 1));
    assert_eq!(shop.sql("SELECT count(*) FROM delayq.tasks"), "2");
    running.plugin.shutdown(seconds(1)).await;
}

#[tokio::test]
async fn a_task_that_is_to_run_again_runs_again_after_the_commit() {
    let shop = Shop::open("again");
    let running = shop
        .start(SHORT, |mut call| async move {
            if call.number == 1 {
                let tasks = call.client;
                // The second request comes while the first one runs.
                while tasks.query("SELECT 1 FROM gate", &[]).await?.is_empty() {
                    tokio::time::sleep(millis(10)).await;
                }
                call.client = tasks;
            }
            let mut tx = call.client.transaction().await?;
            pay(&mut tx, &call.order).await?;
            call.cx.settle_within(&mut tx).await?;
            tx.commit().await?;
            Ok(())
        })
        .await;
    let mut events = running.tasks.events();
    let job = || pay_job("o-1").again_if_running();
    running.tasks.send(job()).await.unwrap();
    running.reaches("o-1", TaskState::Running).await;
    running.tasks.send(job()).await.unwrap();
    shop.sql("INSERT INTO gate VALUES (1)");
    for run in 1..=2 {
        let kinds = until_success(&mut events, "o-1").await;
        let is_lost = |kind: &TaskEventKind| matches!(kind, TaskEventKind::LockLost { .. });
        assert!(!kinds.iter().any(is_lost), "run {run}: {kinds:?}");
    }
    assert_eq!((shop.paid("o-1"), running.calls()), (2, 2));
    running.plugin.shutdown(seconds(1)).await;
}
