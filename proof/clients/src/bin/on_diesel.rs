//! Tasks in transactions of diesel.

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
use delayq_transaction::Diesel;
use diesel::sql_types::Text;
use diesel::{Connection, PgConnection, RunQueryDsl};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// Makes a call from inside the closure of a transaction, which diesel runs on this thread. Needs a
/// runtime with several threads.
fn wait<F: Future>(call: F) -> F::Output {
    block_in_place(|| Handle::current().block_on(call))
}

fn place(tasks: &TaskSubmitService, order: &str) -> Result<(), AnyError> {
    let mut shop = PgConnection::establish(&url())?;
    shop.transaction(|tx| {
        diesel::sql_query("INSERT INTO orders VALUES ($1)")
            .bind::<Text, _>(order)
            .execute(tx)?;
        let job = DelayQueueJob::raw("order.pay", order).id(order);
        wait(tasks.send(job).within(&mut Diesel(tx)))?;
        Ok(())
    })
}

#[task_worker(type = "order.pay", blocking)]
fn pay(order: &str, cx: &TaskContext) -> TaskResult {
    let mut shop = PgConnection::establish(&url())?;
    shop.transaction(|tx| {
        diesel::sql_query("INSERT INTO payments VALUES ($1)")
            .bind::<Text, _>(order)
            .execute(tx)?;
        wait(cx.settle_within(&mut Diesel(tx)))?;
        Ok::<_, AnyError>(())
    })?;
    Ok(())
}

/// Rolled back by the error; refused by the database, in its words.
fn refused(tasks: &TaskSubmitService) -> Result<(), AnyError> {
    let mut shop = PgConnection::establish(&url())?;
    shop.transaction(|tx| {
        let job = DelayQueueJob::raw("order.pay", "o-2").id("o-2");
        wait(tasks.send(job).within(&mut Diesel(tx)))?;
        let _ = diesel::sql_query("SELECT 1/0").execute(tx);
        let cancel = tasks.cancel("order.pay", "o-1");
        let _ = wait(cancel.within(&mut Diesel(tx)))?;
        Ok(())
    })
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let plugin = DelayQueuePlugin::builder().url(url()).start().await?;
    let tasks = plugin.submit_service();
    let service = tasks.clone();
    tokio::task::spawn_blocking(move || place(&service, "o-1")).await??;
    paid(&tasks, "o-1").await?;
    let service = tasks.clone();
    let error = tokio::task::spawn_blocking(move || refused(&service))
        .await?
        .unwrap_err();
    println!("{error}");
    plugin.shutdown(seconds(1)).await;
    Ok(())
}
