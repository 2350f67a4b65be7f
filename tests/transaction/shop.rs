//! A shop with a database of its own: orders that are paid by a worker, each in its transaction.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, TaskContext, TaskInfo, TaskResult, TaskState,
    TaskSubmitService, TaskWorker, WorkerOptions, millis, seconds,
};
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::rig::until;
use tokio_postgres::{Client, NoTls};

/// The type of the tasks that pay.
pub(crate) const PAY: &str = "order.pay";

/// Options of a worker whose lock is short.
pub(crate) const SHORT: WorkerOptions = WorkerOptions {
    lock: seconds(1),
    timeout: seconds(30),
    ..WorkerOptions::DEFAULT
};

/// A database with the tables `orders`, `paid` and `gate`.
pub(crate) struct Shop {
    server: &'static PostgresServer,
    name: String,
}

/// What a worker does with an order.
type Script = dyn Fn(Call) -> Pin<Box<dyn Future<Output = TaskResult> + Send>> + Send + Sync;

/// A call of a worker, with a connection of its own.
pub(crate) struct Call {
    pub(crate) order: String,
    pub(crate) cx: TaskContext,
    pub(crate) client: Client,
    /// Counts from 1, over all calls of the worker.
    pub(crate) number: usize,
}

struct Scripted {
    url: String,
    calls: Arc<AtomicUsize>,
    script: Box<Script>,
}

#[async_trait]
impl TaskWorker for Scripted {
    async fn invoke(&self, order: &str, cx: &TaskContext) -> TaskResult {
        let call = Call {
            order: order.to_owned(),
            cx: cx.clone(),
            client: connect(&self.url).await,
            number: self.calls.fetch_add(1, Ordering::SeqCst) + 1,
        };
        (self.script)(call).await
    }
}

/// A running plugin, and how often its worker was called.
pub(crate) struct Running {
    pub(crate) plugin: DelayQueuePlugin,
    pub(crate) tasks: TaskSubmitService,
    calls: Arc<AtomicUsize>,
}

impl Running {
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Awaits that a task is in `state`.
    pub(crate) async fn reaches(&self, id: &str, state: TaskState) -> TaskInfo {
        until(&format!("{id} {state}"), || async {
            let found = self.tasks.find(PAY, id).await.unwrap();
            found.filter(|task| task.state == state)
        })
        .await
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Shop {
    /// A new database of this name on the shared server.
    pub(crate) fn open(name: &str) -> Self {
        let server = PostgresServer::shared();
        server.create_database(name);
        let shop = Self {
            server,
            name: name.to_owned(),
        };
        shop.sql(
            "CREATE TABLE orders (id text PRIMARY KEY); CREATE TABLE paid (id text); \
             CREATE TABLE gate (opened int)",
        );
        shop
    }

    pub(crate) fn url(&self) -> String {
        self.server.url_of(&self.name)
    }

    /// What psql prints.
    pub(crate) fn sql(&self, text: &str) -> String {
        self.server.sql(&self.name, text)
    }

    /// How often an order was paid.
    pub(crate) fn paid(&self, id: &str) -> usize {
        let count = self.sql(&format!("SELECT count(*) FROM paid WHERE id = '{id}'"));
        count.parse().unwrap()
    }

    /// A connection of the application.
    pub(crate) async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    /// A service that sends, and no worker.
    pub(crate) async fn tasks(&self) -> TaskSubmitService {
        TaskSubmitService::connect(&self.url(), delayq_core::store::StoreOptions::default())
            .await
            .unwrap()
    }

    /// A plugin whose worker does what the script says.
    pub(crate) async fn start<F>(
        &self,
        options: WorkerOptions,
        script: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Running
    where
        F: Future<Output = TaskResult> + Send + 'static,
    {
        let calls = Arc::new(AtomicUsize::new(0));
        let worker = Scripted {
            url: self.url(),
            calls: Arc::clone(&calls),
            script: Box::new(move |call| Box::pin(script(call))),
        };
        let plugin = DelayQueuePlugin::builder()
            .without_registered_workers()
            .url(self.url())
            .poll_interval(millis(20))
            .worker(PAY, options, worker)
            .start()
            .await
            .unwrap();
        Running {
            tasks: plugin.submit_service(),
            plugin,
            calls,
        }
    }

    /// A plugin that pays each order as it should.
    pub(crate) async fn start_paying(&self) -> Running {
        self.start(SHORT, |mut call| async move {
            let mut tx = call.client.transaction().await?;
            pay(&mut tx, &call.order).await?;
            call.cx.settle_within(&mut tx).await?;
            tx.commit().await?;
            Ok(())
        })
        .await
    }
}

/// The task that pays an order, due now.
pub(crate) fn pay_job(id: &str) -> DelayQueueJob {
    DelayQueueJob::raw(PAY, id).id(id)
}

/// Writes that an order is paid.
pub(crate) async fn pay(
    tx: &mut tokio_postgres::Transaction<'_>,
    order: &str,
) -> Result<(), tokio_postgres::Error> {
    tx.execute("INSERT INTO paid VALUES ($1)", &[&order])
        .await
        .map(drop)
}
