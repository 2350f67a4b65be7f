//! Tasks in transactions of tokio-postgres.

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
use tokio_postgres::{Client, NoTls};

async fn connect() -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(&url(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn place(shop: &mut Client, tasks: &TaskSubmitService, order: &str) -> Result<(), AnyError> {
    let mut tx = shop.transaction().await?;
    tx.execute("INSERT INTO orders VALUES ($1)", &[&order])
        .await?;
    let job = DelayQueueJob::raw("order.pay", order).id(order);
    tasks.send(job).within(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

#[task_worker(type = "order.pay")]
async fn pay(order: &str, cx: &TaskContext) -> TaskResult {
    let mut shop = connect().await?;
    let mut tx = shop.transaction().await?;
    tx.execute("INSERT INTO payments VALUES ($1)", &[&order])
        .await?;
    cx.settle_within(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let mut shop = connect().await?;
    let plugin = DelayQueuePlugin::builder().url(url()).start().await?;
    let tasks = plugin.submit_service();
    place(&mut shop, &tasks, "o-1").await?;
    paid(&tasks, "o-1").await?;
    // Dropped, and so rolled back.
    let mut tx = shop.transaction().await?;
    tasks
        .send(DelayQueueJob::raw("order.pay", "o-2").id("o-2"))
        .within(&mut tx)
        .await?;
    drop(tx);
    // Refused by the database, in its words.
    let mut tx = shop.transaction().await?;
    let _ = tx.execute("SELECT 1/0", &[]).await;
    let error = tasks
        .cancel("order.pay", "o-1")
        .within(&mut tx)
        .await
        .unwrap_err();
    println!("{error}");
    plugin.shutdown(seconds(1)).await;
    Ok(())
}
