//! Pays orders: the payment and the end of its task are written in one transaction.

use std::sync::Mutex;
use std::sync::PoisonError;

use async_trait::async_trait;
use delayq_plugin::{Error, TaskContext, TaskError, TaskResult, TaskWorker, millis};
use tokio_postgres::{Client, NoTls};

/// A worker with a few connections.
#[derive(Debug)]
pub(crate) struct Payer {
    url: String,
    idle: Mutex<Vec<Client>>,
}

impl Payer {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            idle: Mutex::default(),
        }
    }

    async fn client(&self) -> Result<Client, tokio_postgres::Error> {
        let idle = self.idle().pop();
        if let Some(client) = idle.filter(|client| !client.is_closed()) {
            return Ok(client);
        }
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl TaskWorker for Payer {
    async fn invoke(&self, order: &str, cx: &TaskContext) -> TaskResult {
        let mut client = self.client().await?;
        pay(&mut client, order, cx).await?;
        self.idle().push(client);
        Ok(())
    }
}

/// Some payments fail on purpose, before the commit and after it.
async fn pay(client: &mut Client, order: &str, cx: &TaskContext) -> TaskResult {
    let mut tx = client.transaction().await?;
    let insert = "INSERT INTO payments (id, fence) VALUES ($1, $2)";
    let fence = i64::try_from(cx.fence())?;
    tx.execute(insert, &[&order, &fence]).await?;
    pause().await;
    match cx.settle_within(&mut tx).await {
        Ok(()) => {}
        Err(error @ Error::LockLost { .. }) => {
            println!("payer: {error}");
            return Err(error.into());
        }
        Err(error) => return Err(error.into()),
    }
    pause().await;
    match fastrand::u8(..) {
        0..8 => return Err("it fails before the commit".into()),
        8..16 => return Ok(tx.rollback().await?),
        16..24 => return Ok(()),
        _ => tx.commit().await?,
    }
    pause().await;
    match fastrand::u8(..) {
        0..8 => Err(TaskError::dead("it fails after the commit")),
        8..16 => panic!("it panics after the commit"),
        _ => Ok(()),
    }
}

/// Mostly short, and now and then longer than a lock.
async fn pause() {
    let ms = match fastrand::u16(0..1_000) {
        0 => 1_500,
        1..10 => 200,
        _ => fastrand::u64(0..4),
    };
    tokio::time::sleep(millis(ms)).await;
}
