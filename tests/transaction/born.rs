//! Tasks that are sent and changed in a transaction.

use delayq_core::store::SubmitOutcome;
use delayq_plugin::{
    CancelOutcome, ChangeOutcome, Error, TaskEventKind, TaskState, When, hours, seconds,
};

use crate::shop::{PAY, Shop, pay_job};

#[tokio::test]
async fn a_task_is_there_with_the_commit_and_not_without() {
    let shop = Shop::open("born");
    let running = shop.start_paying().await;
    let (tasks, mut client) = (&running.tasks, shop.client().await);
    for (id, commits) in [("rolled-back", false), ("committed", true)] {
        let mut tx = client.transaction().await.unwrap();
        tx.execute("INSERT INTO orders VALUES ($1)", &[&id])
            .await
            .unwrap();
        let receipt = tasks.send(pay_job(id)).within(&mut tx).await.unwrap();
        assert_eq!(receipt.id.as_str(), id);
        assert!(matches!(receipt.outcome, SubmitOutcome::Accepted { .. }));
        let again = tasks.send(pay_job(id)).within(&mut tx).await.unwrap();
        let state = TaskState::Scheduled;
        assert_eq!(again.outcome, SubmitOutcome::AlreadyExists { state });
        assert_eq!(tasks.find(PAY, id).await.unwrap(), None);
        if commits {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    running.reaches("committed", TaskState::Done).await;
    assert_eq!(running.calls(), 1);
    assert_eq!(shop.sql("SELECT id FROM paid"), "committed");
    assert_eq!(shop.sql("SELECT id FROM orders"), "committed");
    assert_eq!(tasks.find(PAY, "rolled-back").await.unwrap(), None);
    running.plugin.shutdown(seconds(1)).await;
}

#[tokio::test]
async fn a_task_is_as_it_would_be_without_a_transaction() {
    let shop = Shop::open("same");
    let (tasks, mut client) = (shop.tasks().await, shop.client().await);
    let job = |id: &str| {
        delayq_plugin::DelayQueueJob::raw(PAY, vec![0, 0xff])
            .id(id)
            .after(hours(2))
            .expires_after(hours(1))
            .header("kunde", "Müller \u{1f980}")
    };
    tasks.send(job("plain")).await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    let jobs = vec![job("within"), job("plain")];
    let receipts = tasks.send_all(jobs).within(&mut tx).await;
    let outcome = receipts[1].as_ref().unwrap().outcome;
    assert!(matches!(outcome, SubmitOutcome::AlreadyExists { .. }));
    tx.commit().await.unwrap();
    let again = tasks.send(job("within")).await.unwrap();
    assert!(matches!(again.outcome, SubmitOutcome::AlreadyExists { .. }));
    let find = async |id| tasks.find(PAY, id).await.unwrap().unwrap();
    let (plain, within) = (find("plain").await, find("within").await);
    assert_eq!(plain.headers, within.headers);
    assert_eq!(plain.expires_at.is_some(), within.expires_at.is_some());
    assert_eq!(
        shop.sql("SELECT count(DISTINCT message) FROM delayq.tasks"),
        "1"
    );
}

#[tokio::test]
async fn a_refused_task_leaves_the_transaction_as_it_was() {
    let shop = Shop::open("conflict");
    let (tasks, mut client) = (shop.tasks().await, shop.client().await);
    tasks.send(pay_job("o-1").after(hours(1))).await.unwrap();
    let mut events = tasks.events();
    let mut tx = client.transaction().await.unwrap();
    let other = delayq_plugin::DelayQueueJob::raw(PAY, "other").id("o-1");
    let refused = tasks.send(other).within(&mut tx).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused}");
    let bad = tasks.send(pay_job("two words")).within(&mut tx).await;
    assert!(matches!(bad, Err(Error::InvalidName { .. })), "{bad:?}");
    tx.execute("INSERT INTO orders VALUES ('o-1')", &[])
        .await
        .unwrap();
    tasks.send(pay_job("o-2")).within(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.sql("SELECT id FROM orders"), "o-1");
    let born = tasks.find(PAY, "o-2").await.unwrap();
    assert_eq!(born.unwrap().state, TaskState::Scheduled);
    tasks.send(pay_job("o-3")).await.unwrap();
    let first = events.next().await.unwrap();
    assert_eq!(first.id.as_str(), "o-3", "no event tells of a transaction");
    assert!(matches!(first.kind, TaskEventKind::Submitted { .. }));
}

#[tokio::test]
async fn tasks_are_cancelled_moved_and_updated_with_the_commit() {
    let shop = Shop::open("changed");
    let (tasks, mut client) = (shop.tasks().await, shop.client().await);
    for id in ["cancelled", "moved", "updated"] {
        tasks.send(pay_job(id).after(hours(1))).await.unwrap();
    }
    let soon = When::After(hours(9));
    for commits in [false, true] {
        let mut tx = client.transaction().await.unwrap();
        let cancelled = tasks.cancel(PAY, "cancelled").within(&mut tx).await;
        assert_eq!(cancelled.unwrap(), CancelOutcome::Cancelled);
        let nobody = tasks.cancel(PAY, "nobody").within(&mut tx).await.unwrap();
        assert_eq!(nobody, CancelOutcome::NotFound);
        let moved = tasks.reschedule(PAY, "moved", soon).within(&mut tx).await;
        assert!(matches!(moved.unwrap(), ChangeOutcome::Changed { .. }));
        let updated = tasks.update(PAY, "updated", &[1, 2]).within(&mut tx).await;
        assert!(matches!(updated.unwrap(), ChangeOutcome::Changed { .. }));
        if commits {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        let find = async |id| tasks.find(PAY, id).await.unwrap().unwrap();
        let state = find("cancelled").await.state;
        assert_eq!(state == TaskState::Cancelled, commits, "{state}");
        let wait = find("moved").await.at.since(tasks.clock().now());
        assert_eq!(wait > hours(8), commits, "{wait:?}");
        let message = "SELECT convert_from(message, 'UTF8') FROM delayq.tasks WHERE id = 'updated'";
        assert_eq!(shop.sql(message) == "[1,2]", commits);
    }
}

#[tokio::test]
async fn a_client_without_a_transaction_commits_each_call_by_itself() {
    let shop = Shop::open("autocommit");
    let (tasks, mut client) = (shop.tasks().await, shop.client().await);
    tasks
        .send(pay_job("o-1"))
        .within(&mut client)
        .await
        .unwrap();
    assert!(tasks.find(PAY, "o-1").await.unwrap().is_some());
    client.batch_execute("BEGIN").await.unwrap();
    tasks
        .send(pay_job("o-2"))
        .within(&mut client)
        .await
        .unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(tasks.find(PAY, "o-2").await.unwrap(), None);
}
