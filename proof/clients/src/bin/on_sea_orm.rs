//! Tasks in transactions of SeaORM 2.

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
use sea_orm::{
    ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr, Statement, TransactionTrait,
};

fn insert(table: &str, order: &str) -> Statement {
    let sql = format!("INSERT INTO {table} VALUES ($1)");
    Statement::from_sql_and_values(DbBackend::Postgres, sql, [order.into()])
}

async fn place(
    shop: &DatabaseConnection,
    tasks: &TaskSubmitService,
    order: &str,
) -> Result<(), AnyError> {
    let mut tx = shop.begin().await?;
    tx.execute_raw(insert("orders", order)).await?;
    let job = DelayQueueJob::raw("order.pay", order).id(order);
    tasks.send(job).within(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

#[task_worker(type = "order.pay")]
async fn pay(order: &str, cx: &TaskContext, shop: Component<DatabaseConnection>) -> TaskResult {
    let mut tx = shop.begin().await?;
    tx.execute_raw(insert("payments", order)).await?;
    cx.settle_within(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let shop = Database::connect(url()).await?;
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
    let refused: Result<_, DbErr> = tx.execute_unprepared("SELECT 1/0").await;
    refused.unwrap_err();
    let error = tasks
        .cancel("order.pay", "o-1")
        .within(&mut tx)
        .await
        .unwrap_err();
    println!("{error}");
    plugin.shutdown(seconds(1)).await;
    Ok(())
}
