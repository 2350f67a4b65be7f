//! Chaos against workers of your own: `cargo run -p delayq-chaos --example own_workers`.
//!
//! A shop charges orders into a ledger, a file of its own. Three processes run its workers, two
//! send orders; they are killed and stopped while they do. In the end every order that is done must
//! stand in the ledger once. The exit code says whether it does, and whether delayq kept its
//! promises.
//!
//! `--careless` leaves the ledger without the key that keeps a repeated attempt from charging
//! twice: the run must come out broken.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Parser;
use delayq_chaos::fault::Kind;
use delayq_chaos::history::History;
use delayq_chaos::run::{AnyError, Application, Args, Place, Sent, StoreKind, run};
use delayq_plugin::{
    Component, DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, Json, Result, TaskContext,
    TaskResult, TaskState, TaskSubmitService, When, millis, task_worker,
};
use rusqlite::{Connection, params};

/// What the shop has charged.
struct Ledger(Mutex<Connection>);

impl Ledger {
    fn open(folder: &Path, careless: bool) -> rusqlite::Result<Self> {
        let file = Connection::open(folder.join("ledger.sqlite"))?;
        file.busy_timeout(millis(5_000))?;
        file.execute_batch("CREATE TABLE IF NOT EXISTS charged (id TEXT, cents INTEGER)")?;
        if !careless {
            file.execute_batch("CREATE UNIQUE INDEX IF NOT EXISTS once ON charged (id)")?;
        }
        Ok(Self(Mutex::new(file)))
    }

    /// Charges an order: once, if ids are unique.
    fn charge(&self, id: &str, cents: u32) -> rusqlite::Result<()> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let insert = "INSERT INTO charged VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        file.execute(insert, params![id, cents])?;
        Ok(())
    }

    /// How many times an order was charged.
    fn times(&self, id: &str) -> rusqlite::Result<u32> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = "SELECT count(*) FROM charged WHERE id = ?1";
        file.query_row(count, [id], |row| row.get(0))
    }
}

/// An ordinary worker, which knows nothing of the chaos.
#[task_worker(type = "order.charge")]
async fn charge(Json(cents): Json<u32>, cx: &TaskContext, ledger: Component<Ledger>) -> TaskResult {
    ledger.charge(cx.id().as_str(), cents)?;
    // The receipt is printed, or the process dies before delayq hears of it.
    tokio::time::sleep(millis(100)).await;
    Ok(())
}

struct Shop {
    careless: bool,
}

impl Application for Shop {
    async fn plugin(&self, place: &Place) -> Result<DelayQueuePluginBuilder, AnyError> {
        Ok(DelayQueuePlugin::builder().component(Ledger::open(&place.folder, self.careless)?))
    }

    fn job(&self, number: u64) -> Result<DelayQueueJob> {
        let cents = u32::try_from(number % 10_000).unwrap_or(0);
        let job = charge::job(&cents)?.id(format!("order-{number}"));
        Ok(job.after(millis(number % 1_000)))
    }

    /// Orders are put off now and then. Nobody cancels one.
    async fn change(&self, tasks: &TaskSubmitService, sent: Sent<'_>, number: u64) -> Result<()> {
        let when = When::After(millis(number % 1_000));
        let _ = tasks.reschedule(sent.task_type, sent.id, when).await?;
        Ok(())
    }

    /// What is done was charged once, and nothing else was.
    async fn verify(&self, place: &Place) -> Result<(), AnyError> {
        let ledger = Ledger::open(&place.folder, self.careless)?;
        let history = History::read(&place.folder)?;
        for (task, stored) in history.tasks.iter().zip(&history.stored) {
            let Some(id) = task.strip_prefix("order.charge/") else {
                continue;
            };
            let is_done = stored.is_some_and(|stored| stored.state == TaskState::Done);
            let times = ledger.times(id)?;
            if times != u32::from(is_done) {
                return Err(format!("{id} was charged {times} times, and is {stored:?}").into());
            }
        }
        Ok(())
    }
}

#[derive(Parser)]
struct Cli {
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, value_enum, default_value = "sqlite")]
    store: StoreKind,
    #[arg(long)]
    careless: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut faults = vec![Kind::KillWorker, Kind::KillSubmitter, Kind::PauseLong];
    if cli.store.is_redis() {
        faults.extend([Kind::KillRedis, Kind::CutAfter]);
    }
    let args = Args {
        seconds: 1,
        lock_ms: 1_000,
        seed: cli.seed,
        store: cli.store,
        faults,
        ..Args::default()
    };
    let careless = cli.careless;
    run(Shop { careless }, &args).into()
}
