//! An instance whose worker pays orders in its own transaction, and stops at a moment of it, so
//! that a test can kill it there. Arguments: the URL of the database, and the moment.

use std::future::pending;
use std::time::Duration;

use async_trait::async_trait;
use delayq_plugin::{
    DelayQueuePlugin, TaskContext, TaskResult, TaskWorker, WorkerOptions, millis, seconds,
};
use tokio_postgres::{Client, NoTls};

/// Pays orders.
struct Payer {
    url: String,
    moment: String,
}

impl Payer {
    /// Says that the moment has come, and stays there if it is the one.
    async fn at(&self, moment: &str) {
        if self.moment == moment {
            say(moment);
            pending::<()>().await;
        }
    }

    /// At the moment `gate`, waits until the test has opened it.
    async fn gate(&self, client: &Client) {
        if self.moment != "gate" {
            return;
        }
        say("gate");
        while client
            .query("SELECT 1 FROM gate", &[])
            .await
            .expect("it is read")
            .is_empty()
        {
            tokio::time::sleep(millis(10)).await;
        }
    }
}

#[async_trait]
impl TaskWorker for Payer {
    async fn invoke(&self, order: &str, cx: &TaskContext) -> TaskResult {
        let (mut client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(connection);
        self.gate(&client).await;
        let mut tx = client.transaction().await?;
        tx.execute("INSERT INTO paid VALUES ($1)", &[&order])
            .await?;
        if let Err(error) = cx.settle_within(&mut tx).await {
            say(&format!("refused: {error}"));
            return Err(error.into());
        }
        self.at("before").await;
        tx.commit().await?;
        self.at("after").await;
        Ok(())
    }
}

fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout();
    writeln!(out, "moment: {line}").expect("the test reads");
    out.flush().expect("the test reads");
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().expect("the URL of a database");
    let moment = arguments.next().expect("before, after, gate or never");
    let options = WorkerOptions {
        lock: seconds(1),
        timeout: seconds(60),
        ..WorkerOptions::DEFAULT
    };
    let worker = Payer {
        url: url.clone(),
        moment,
    };
    let plugin = DelayQueuePlugin::builder()
        .without_registered_workers()
        .url(&url)
        .poll_interval(Duration::from_millis(20))
        .worker("order.pay", options, worker)
        .start()
        .await
        .expect("the plugin starts");
    plugin.run_until_signal().await.expect("signals are heard");
}
