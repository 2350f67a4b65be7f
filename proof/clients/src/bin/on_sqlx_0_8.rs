//! Tasks in transactions of sqlx 0.8.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it shows what it is told"
)]

use delayq_clients::{AnyError, paid, url};
use delayq_plugin::{
    Component, DelayQueueJob, DelayQueuePlugin, TaskContext, TaskResult, TaskSubmitService,
    seconds, task_worker,
};
use sqlx_0_8::PgPool;

async fn place(shop: &PgPool, tasks: &TaskSubmitService, order: &str) -> Result<(), AnyError> {
    let mut tx = shop.begin().await?;
    sqlx_0_8::query("INSERT INTO orders VALUES ($1)")
        .bind(order)
        .execute(&mut *tx)
        .await?;
    let job = DelayQueueJob::raw("order.pay", order).id(order);
    tasks.send(job).within(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

#[task_worker(type = "order.pay")]
async fn pay(order: &str, cx: &TaskContext, shop: Component<PgPool>) -> TaskResult {
    let mut tx = shop.begin().await?;
    sqlx_0_8::query("INSERT INTO payments VALUES ($1)")
        .bind(order)
        .execute(&mut *tx)
        .await?;
    cx.settle_within(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let shop = PgPool::connect(&url()).await?;
    let plugin = DelayQueuePlugin::builder()
        .url(url())
        .component(shop.clone())
        .start()
        .await?;
    let tasks = plugin.submit_service();
    place(&shop, &tasks, "o-1").await?;
    paid(&tasks, "o-1").await?;
    // Dropped, and so rolled back.
    let mut tx = shop.begin().await?;
    tasks
        .send(DelayQueueJob::raw("order.pay", "o-2").id("o-2"))
        .within(&mut tx)
        .await?;
    drop(tx);
    // Refused by the database, in its words.
    let mut tx = shop.begin().await?;
    let _ = sqlx_0_8::query("SELECT 1/0").execute(&mut *tx).await;
    let error = tasks
        .cancel("order.pay", "o-1")
        .within(&mut tx)
        .await
        .unwrap_err();
    println!("{error}");
    plugin.shutdown(seconds(1)).await;
    Ok(())
}
