//! What cannot be done in a transaction, and what it says.

use std::sync::Arc;

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_plugin::{
    DelayQueuePlugin, Delivery, Error, TaskContext, TaskResult, TaskState, TaskSubmitService,
    TaskWorker, WorkerOptions, millis, seconds,
};
use delayq_tests::rig::until;
use tokio::sync::mpsc;

use crate::shop::{PAY, SHORT, Shop, pay_job};

/// Reports what `settle_within` said.
struct Reporting {
    url: String,
    said: mpsc::UnboundedSender<String>,
}

#[async_trait]
impl TaskWorker for Reporting {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        let shop = tokio_postgres::connect(&self.url, tokio_postgres::NoTls);
        let (mut client, connection) = shop.await?;
        tokio::spawn(connection);
        let mut tx = client.transaction().await?;
        let refused = cx.settle_within(&mut tx).await.unwrap_err();
        self.said.send(refused.to_string())?;
        Ok(())
    }
}

/// A worker of another name.
struct Other(Reporting);

#[async_trait]
impl TaskWorker for Other {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.0.invoke(message, cx).await
    }
}

#[tokio::test]
async fn a_task_that_cannot_end_in_a_transaction_says_why() {
    let shop = Shop::open("refused");
    let (said, mut heard) = mpsc::unbounded_channel();
    let worker = |options| {
        let worker = Reporting {
            url: shop.url(),
            said: said.clone(),
        };
        DelayQueuePlugin::builder()
            .without_registered_workers()
            .poll_interval(millis(20))
            .worker(PAY, options, worker)
    };
    let at_most_once = WorkerOptions {
        delivery: Delivery::AtMostOnce,
        ..SHORT
    };
    let other = Other(Reporting {
        url: shop.url(),
        said: said.clone(),
    });
    let memory = Arc::new(MemoryStore::default());
    for (id, builder, reason) in [
        ("once", worker(at_most_once).url(shop.url()), "at-most-once"),
        (
            "many",
            worker(SHORT).worker(PAY, SHORT, other).url(shop.url()),
            "other workers",
        ),
        (
            "memory",
            worker(SHORT).store(memory),
            "not in a SQL database",
        ),
    ] {
        let plugin = builder.start().await.unwrap();
        let tasks = plugin.submit_service();
        tasks.send(pay_job(id)).await.unwrap();
        let refused = heard.recv().await.unwrap();
        assert!(refused.contains(reason), "{refused}");
        // A refusal before the call leaves the end to the worker.
        until("its end", async || {
            let found = tasks.find(PAY, id).await.unwrap()?;
            (found.state == TaskState::Done).then_some(())
        })
        .await;
        plugin.shutdown(seconds(1)).await;
        while heard.try_recv().is_ok() {}
    }
}

#[tokio::test]
async fn the_words_of_the_database_come_with_its_hint() {
    let shop = Shop::open("words");
    let (tasks, mut client) = (shop.tasks().await, shop.client().await);
    let mut tx = client.transaction().await.unwrap();
    tx.execute("SELECT 1/0", &[]).await.unwrap_err();
    let error = tasks
        .send(pay_job("o-1"))
        .within(&mut tx)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Transaction { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("current transaction is aborted"), "{told}");
    assert!(told.contains("25P02") && !error.is_transient(), "{told}");
    tx.rollback().await.unwrap();
    let memory = TaskSubmitService::new(Arc::new(MemoryStore::default()));
    let error = memory.cancel(PAY, "o-1").within(&mut client).await;
    let told = error.unwrap_err().to_string();
    assert!(told.contains("is not in a SQL database"), "{told}");
    shop.sql("DROP FUNCTION delayq.within_v1");
    let error = tasks.cancel(PAY, "o-1").within(&mut client).await;
    let told = error.unwrap_err().to_string();
    assert!(told.contains("within_v1(text) does not exist"), "{told}");
    assert!(told.contains("hint: "), "{told}");
}
