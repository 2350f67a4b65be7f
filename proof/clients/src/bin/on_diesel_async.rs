//! Tasks in transactions of diesel-async.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it shows what it is told"
)]

use delayq_clients::{AnyError, paid, url};
use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, TaskContext, TaskResult, TaskSubmitService, seconds,
    task_worker,
};
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};

async fn place(
    shop: &mut AsyncPgConnection,
    tasks: &TaskSubmitService,
    order: &str,
) -> Result<(), AnyError> {
    shop.transaction(async |tx| {
        let insert = diesel::sql_query("INSERT INTO orders VALUES ($1)").bind::<Text, _>(order);
        insert.execute(tx).await?;
        let job = DelayQueueJob::raw("order.pay", order).id(order);
        tasks.send(job).within(tx).await?;
        Ok::<_, AnyError>(())
    })
    .await
}

#[task_worker(type = "order.pay")]
async fn pay(order: &str, cx: &TaskContext) -> TaskResult {
    let mut shop = AsyncPgConnection::establish(&url()).await?;
    shop.transaction(async |tx| {
        let insert = diesel::sql_query("INSERT INTO payments VALUES ($1)").bind::<Text, _>(order);
        insert.execute(tx).await?;
        cx.settle_within(tx).await?;
        Ok::<_, AnyError>(())
    })
    .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let mut shop = AsyncPgConnection::establish(&url()).await?;
    let plugin = DelayQueuePlugin::builder().url(url()).start().await?;
    let tasks = plugin.submit_service();
    place(&mut shop, &tasks, "o-1").await?;
    paid(&tasks, "o-1").await?;
    // Rolled back by the error; refused by the database, in its words.
    let refused = shop.transaction(async |tx| {
        tasks
            .send(DelayQueueJob::raw("order.pay", "o-2").id("o-2"))
            .within(tx)
            .await?;
        let _ = diesel::sql_query("SELECT 1/0").execute(tx).await;
        tasks.cancel("order.pay", "o-1").within(tx).await?;
        Ok::<_, AnyError>(())
    });
    println!("{}", refused.await.unwrap_err());
    plugin.shutdown(seconds(1)).await;
    Ok(())
}
