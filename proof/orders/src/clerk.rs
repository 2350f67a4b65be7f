//! Takes orders: an order and the task that pays it are born in one transaction.

use delayq_plugin::{CancelOutcome, DelayQueueJob, TaskSubmitService, millis};
use tokio_postgres::{Client, NoTls};

use crate::{Failure, PAY};

/// A clerk.
#[derive(Debug)]
pub(crate) struct Clerk {
    pub(crate) url: String,
    pub(crate) tasks: TaskSubmitService,
    /// Part of the numbers of its orders.
    pub(crate) instance: u64,
}

impl Clerk {
    /// Takes orders until its process is killed. A lost connection is made again.
    pub(crate) async fn take_orders(&self) {
        let mut next = 0;
        loop {
            if let Err(failure) = self.with_one_connection(&mut next).await {
                println!("clerk: {failure}");
            }
            tokio::time::sleep(millis(20)).await;
        }
    }

    async fn with_one_connection(&self, next: &mut u64) -> Result<(), Failure> {
        let (mut client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(connection);
        loop {
            *next += 1;
            let order = format!("{}-{next}", self.instance);
            self.take(&mut client, &order).await?;
            if fastrand::u8(..) < 32 {
                self.cancel(&mut client, &order).await?;
            }
            tokio::time::sleep(millis(fastrand::u64(0..8))).await;
        }
    }

    /// An order in ten is not committed: neither it nor its task may ever be seen.
    async fn take(&self, client: &mut Client, order: &str) -> Result<(), Failure> {
        let is_meant = fastrand::u8(0..10) > 0;
        let mut tx = client.transaction().await?;
        let insert = "INSERT INTO orders (id, is_meant) VALUES ($1, $2)";
        tx.execute(insert, &[&order, &is_meant]).await?;
        let job = DelayQueueJob::raw(PAY, order).id(order);
        let job = job.after(millis(fastrand::u64(0..50)));
        self.tasks.send(job).within(&mut tx).await?;
        if is_meant {
            tx.commit().await?;
        } else {
            tx.rollback().await?;
        }
        Ok(())
    }

    /// The order is cancelled in the books and in the store, or in neither.
    async fn cancel(&self, client: &mut Client, order: &str) -> Result<(), Failure> {
        let mut tx = client.transaction().await?;
        let outcome = self.tasks.cancel(PAY, order).within(&mut tx).await?;
        let what = match outcome {
            CancelOutcome::Cancelled => "cancelled",
            // It is not paid any more, unless it is being paid right now.
            CancelOutcome::Running => "asked",
            _ => return Ok(tx.rollback().await?),
        };
        let insert = "INSERT INTO cancels (id, what) VALUES ($1, $2)";
        tx.execute(insert, &[&order, &what]).await?;
        if fastrand::bool() {
            return Ok(tx.commit().await?);
        }
        Ok(tx.rollback().await?)
    }
}
