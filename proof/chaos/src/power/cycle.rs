//! The driver: load, power loss, restart, again and again; now and then a store is drained and
//! looked at.

use std::path::Path;
use std::time::{Duration, Instant};

use delayq_plugin::{TaskSubmitService, open_store, seconds};

use super::Args;
use super::disk::Disk;
use super::machine::{LOCK_MS, Machine};
use super::pace::Pace;
use super::tally::Tally;
use crate::check::Outcome;
use crate::event::{Explains, Phase, Plan, Target, What};
use crate::record::Recorder;
use crate::run::{Ending, NAMESPACE, Result, StoreKind, judge, options, processors};

/// The kind of fault that a power loss is.
const KIND: &str = "power-loss";
/// How soon tasks start after a power loss is not what is judged here, where processes start from
/// nothing several times a second; only that they do.
const RECOVERY_MS: u64 = 30_000;
/// How often the progress is shown.
const PROGRESS: Duration = seconds(10);

struct Run<'a> {
    args: &'a Args,
    folder: &'a Path,
    disk: Disk,
    machine: Machine,
    recorder: Recorder,
    dice: fastrand::Rng,
    tally: Tally,
    /// The last power loss, until everybody is back: what it may explain.
    dark: Option<Vec<Explains>>,
    /// The first incarnation on the present store.
    since: u32,
}

/// Plays all cycles and judges them.
pub(super) async fn play(args: &Args, folder: &Path) -> Result<Outcome> {
    let recorder = Recorder::open(folder, "driver", 1, NAMESPACE)?;
    recorder.watch_usage()?;
    recorder.record(What::Plan(plan(args, None)));
    let disk = Disk::build(folder)?;
    let machine = Machine::start(args, folder, &disk).await?;
    let mut run = Run {
        args,
        folder,
        disk,
        machine,
        recorder,
        dice: fastrand::Rng::with_seed(args.seed),
        tally: Tally::default(),
        dark: None,
        since: 1,
    };
    let stuck = run.cycles().await?;
    run.machine.dismiss();
    run.recorder.record_clock();
    run.recorder
        .record(What::Plan(plan(args, Some(&run.tally))));
    run.recorder.record(What::Down);
    println!("\n{}", run.tally);
    let outcome = judge(folder)?;
    match stuck {
        Some(why) => {
            println!("BROKEN: {why}");
            Ok(Outcome::Broken)
        }
        None => Ok(outcome),
    }
}

/// What was never undone is planned once more, and never fires: the run is invalid.
fn plan(args: &Args, tally: Option<&Tally>) -> Plan {
    let mut kinds = vec![KIND.to_owned()];
    if tally.is_some_and(|tally| tally.undoing == 0) {
        kinds.push(format!("{KIND} that undoes a write, not one of which did,"));
    }
    let retention = options().retention.as_millis();
    Plan {
        kinds,
        lock_ms: LOCK_MS,
        recovery_ms: RECOVERY_MS,
        dumps_ended: true,
        processors: processors(),
        retention_ms: u64::try_from(retention).unwrap_or(u64::MAX),
        seed: args.seed,
        ..Plan::default()
    }
}

impl Run<'_> {
    /// Says why the store did not come back, if it did not.
    async fn cycles(&mut self) -> Result<Option<String>> {
        let mut shown = Instant::now();
        for number in 0..self.args.cycles {
            let of_store = number % self.args.store_cycles.max(1);
            if of_store == 0 {
                self.new_store().await?;
            }
            let pace = Pace::random(self.args.store, of_store, &mut self.dice);
            self.turn_on(pace.sync_us)?;
            if pace.is_early {
                self.tally.early += 1;
            } else if let Err(why) = self.come_back().await {
                return Ok(Some(self.stuck(&why.0)));
            } else {
                self.disk.await_use().await?;
            }
            tokio::time::sleep(pace.power).await;
            if pace.is_in_write {
                self.disk.await_change()?;
            }
            self.lose_power(pace).await?;
            let is_last = of_store + 1 == self.args.store_cycles || number + 1 == self.args.cycles;
            if is_last {
                self.turn_on(0)?;
                if let Err(why) = self.come_back().await {
                    return Ok(Some(self.stuck(&why.0)));
                }
                self.look().await?;
            }
            if shown.elapsed() >= PROGRESS || number + 1 == self.args.cycles {
                shown = Instant::now();
                let (undoing, stores) = (self.tally.undoing, self.tally.stores);
                println!(
                    "{:>6} power losses on {stores} stores, {undoing} of them undid writes",
                    number + 1
                );
            }
        }
        Ok(None)
    }

    fn stuck(&self, why: &str) -> String {
        let cycles = self.tally.cycles;
        format!("the store does not come back after power loss {cycles}: {why}")
    }

    async fn new_store(&mut self) -> Result<()> {
        self.machine.turn_off().await?;
        self.disk.empty()?;
        self.tally.stores += 1;
        if !self.machine.has_clients() {
            self.machine.restart_clients()?;
        }
        // Those who come with the power will be in their next one.
        self.since = self.machine.incarnation() + u32::from(self.machine.has_clients());
        Ok(())
    }

    fn turn_on(&mut self, sync_us: u32) -> Result<()> {
        self.disk.turn_on(sync_us)?;
        self.machine.turn_on()
    }

    /// Awaits that everybody is back.
    async fn come_back(&mut self) -> Result<()> {
        if let Err(why) = self.machine.up().await {
            if !self.machine.repair(&self.disk)? {
                return Err(why);
            }
            self.tally.repaired += 1;
            self.machine.turn_on()?;
            self.machine.up().await?;
        }
        self.end_fault();
        Ok(())
    }

    fn end_fault(&mut self) {
        if let Some(explains) = self.dark.take() {
            self.record(Phase::Ended, explains);
        }
    }

    fn record(&self, phase: Phase, explains: Vec<Explains>) {
        self.recorder.record(What::Fault {
            id: u64::from(self.tally.cycles),
            kind: KIND.to_owned(),
            target: Target::Store,
            phase,
            explains,
        });
    }

    async fn lose_power(&mut self, pace: Pace) -> Result<()> {
        self.end_fault();
        let mut explains = vec![Explains::LostLock];
        if self.args.store == StoreKind::RedisEverysec {
            let window_ms = pace.window_ms();
            explains.push(Explains::Rollback { window_ms });
        }
        self.tally.cycles += 1;
        self.recorder.record_clock();
        self.record(Phase::Begun, explains.clone());
        self.machine.turn_off().await?;
        // What is answered from now on, this has not undone.
        self.record(Phase::Struck, explains.clone());
        self.dark = Some(explains);
        let loss = self.disk.cut(&mut self.dice)?;
        self.tally.add(loss);
        Ok(())
    }

    /// Lets the store drain, and records what it holds.
    async fn look(&mut self) -> Result<()> {
        let store = open_store(&self.machine.url, options()).await?;
        let service = TaskSubmitService::new(store);
        let mut ending = Ending {
            workers: &mut self.machine.workers,
            submitters: &mut self.machine.submitters,
            service: &service,
            recorder: &self.recorder,
            folder: self.folder,
            since: self.since,
        };
        ending.calm().await?;
        ending.dump().await?;
        service.store().close().await;
        Ok(())
    }
}
