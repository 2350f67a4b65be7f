//! The driver: injects the faults one after the other, then lets everything drain and has it
//! judged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use delayq_plugin::{millis, seconds};

use super::application::{AnyError, Application};
use super::failure::{Result, failure};
use super::finish;
use super::idle::{idle_types, wake_the_idle};
use super::part::RETENTION;
use super::stage::Stage;
use super::watched::DOWN_AFTER_MS;
use super::{Args, StoreKind};
use crate::check::Outcome;
use crate::event::{Plan, What};
use crate::fault::{self, Kind, UNSHARED, save, unmount, unshare};

/// What every promise adds to the time of a lock.
const GRACE_MS: u64 = 1_000;
/// After one of so many faults, on average, there is a rest.
const RESTS: u32 = 12;
/// How often the progress is shown.
const PROGRESS: Duration = seconds(5);

/// What was done, by kind: how many times, and how often it showed that it had happened.
type Done = BTreeMap<Kind, (u64, u64)>;

/// Runs everything on this very thread: processes are tied to the thread that started them.
pub(crate) fn run(application: &impl Application, args: &Args) -> Result<Outcome> {
    let kinds = kinds(args)?;
    if kinds.contains(&Kind::DiskFull) && std::env::var_os(UNSHARED).is_none() {
        return run_unshared();
    }
    let folder = folder(args)?;
    println!("record: {}", folder.display());
    println!("again:  {} {}", program()?, again(args));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let own = runtime.block_on(play(application, args, &folder, &kinds))?;
    let mut outcome = finish::judge(&folder)?;
    if let Err(error) = own {
        println!("BROKEN: the application finds its own data wrong: {error}");
        outcome = Outcome::Broken;
    }
    if outcome == Outcome::Held && args.folder.is_none() {
        std::fs::remove_dir_all(&folder)?;
    } else {
        println!(
            "kept: {}; delayq-chaos check FOLDER repeats the verdict",
            folder.display()
        );
    }
    Ok(outcome)
}

/// Runs this very command line where it may mount a disk.
fn run_unshared() -> Result<Outcome> {
    let mut unshared = unshare();
    unshared
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(UNSHARED, "1");
    Ok(match unshared.status()?.code() {
        Some(0) => Outcome::Held,
        Some(1) => Outcome::Broken,
        _ => Outcome::Invalid,
    })
}

/// What starts this program: this package's own is started by xtask.
fn program() -> Result<String> {
    let path = std::env::current_exe()?;
    let own = path
        .file_stem()
        .is_some_and(|name| name == env!("CARGO_PKG_NAME"));
    Ok(if own {
        "cargo xtask chaos".to_owned()
    } else {
        path.display().to_string()
    })
}

fn kinds(args: &Args) -> Result<Vec<Kind>> {
    let all = Kind::all(args.store);
    if let Some(odd) = args.faults.iter().find(|kind| !all.contains(kind)) {
        return failure(format!("{} cannot be done on {:?}", odd.name(), args.store));
    }
    if args.skew_ms > 0 && !args.store.is_replicated() {
        return failure("--skew-ms is for a store of several servers");
    }
    let mut kinds = if args.faults.is_empty() {
        all
    } else {
        args.faults.clone()
    };
    for kind in &args.faults {
        if let Some(why) = fault::missing(*kind) {
            return failure(format!("{} cannot be done here: {why}", kind.name()));
        }
    }
    kinds.retain(|kind| match fault::missing(*kind) {
        Some(why) => {
            println!("skipped: {}: {why}", kind.name());
            false
        }
        None => true,
    });
    Ok(kinds)
}

/// What fits the store, and was left out as this machine cannot do it.
fn skipped(args: &Args, kinds: &[Kind]) -> Vec<String> {
    if !args.faults.is_empty() {
        return Vec::new();
    }
    let mut all = Kind::all(args.store);
    all.retain(|kind| !kinds.contains(kind));
    all.iter().map(|kind| kind.name()).collect()
}

fn folder(args: &Args) -> Result<PathBuf> {
    if let Some(folder) = &args.folder {
        std::fs::create_dir_all(folder)?;
        return Ok(folder.canonicalize()?);
    }
    Ok(tempfile::Builder::new()
        .prefix("delayq-chaos-")
        .tempdir()?
        .keep())
}

fn again(args: &Args) -> String {
    let store = args.store.to_possible_value();
    let store = store.map_or_else(String::new, |value| value.get_name().to_owned());
    let mut words = vec![
        format!(
            "--seconds {} --seed {} --store {store}",
            args.seconds, args.seed
        ),
        format!("--tasks {} --lock-ms {}", args.tasks, args.lock_ms),
        format!(
            "--workers {} --submitters {}",
            args.workers, args.submitters
        ),
    ];
    if args.skew_ms > 0 {
        words.push(format!("--skew-ms {}", args.skew_ms));
    }
    words.extend(
        args.faults
            .iter()
            .map(|kind| format!("--fault {}", kind.name())),
    );
    words.join(" ")
}

/// What the application says of its own data in the end. The store's files are kept when the run
/// fails, too.
async fn play(
    application: &impl Application,
    args: &Args,
    folder: &Path,
    kinds: &[Kind],
) -> Result<std::result::Result<(), AnyError>> {
    let mut stage = Stage::set(args, folder, kinds).await?;
    let own = attack(application, (args, kinds), folder, &mut stage).await;
    if kinds.contains(&Kind::DiskFull) {
        save(&stage.data)?;
        unmount(&stage.data)?;
    }
    own
}

async fn attack(
    application: &impl Application,
    (args, kinds): (&Args, &[Kind]),
    folder: &Path,
    stage: &mut Stage,
) -> Result<std::result::Result<(), AnyError>> {
    stage.recorder.record(What::Plan(plan(args, kinds, None)));
    let done = injure(args, stage, kinds).await?;
    // What never showed that it had happened is planned once more, and never fires: the run is
    // invalid.
    stage
        .recorder
        .record(What::Plan(plan(args, kinds, Some(&done))));
    wake_the_idle(stage).await?;
    finish::drain(stage).await?;
    Ok(application.verify(&stage.place(folder)).await)
}

fn plan(args: &Args, kinds: &[Kind], done: Option<&Done>) -> Plan {
    let mut names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    for (kind, (times, evident)) in done.into_iter().flatten() {
        if *evident == 0 {
            names.push(format!(
                "{}, which was done {times} times and did not show",
                kind.name()
            ));
        }
    }
    Plan {
        kinds: names,
        skipped: skipped(args, kinds),
        effect_log: true,
        expects_repeats: kinds.contains(&Kind::KillWorker),
        lock_ms: args.lock_ms,
        // By another server's clock, tasks are due and locks end later by as much.
        recovery_ms: args.lock_ms + GRACE_MS + args.skew_ms,
        skew_ms: args.skew_ms,
        outage_ms: outage_ms(args.store),
        retention_ms: u64::try_from(RETENTION.as_millis()).unwrap_or(u64::MAX),
        dumps_ended: true,
        idle_types: idle_types(args.workers),
        gives_back: args.store == StoreKind::Server,
        moves: args.store == StoreKind::Tiered,
        processors: processors(),
        seed: args.seed,
    }
}

/// Processors that the run may use, as far as the machine and its quota allow.
pub(crate) fn processors() -> u32 {
    let processors = std::thread::available_parallelism();
    processors.map_or(0, |processors| {
        u32::try_from(processors.get()).unwrap_or(u32::MAX)
    })
}

/// How long after the loss of the only master nothing may be accepted: until it is taken for dead,
/// and 3 s for the rest.
fn outage_ms(store: StoreKind) -> u64 {
    if store == StoreKind::RedisSentinel {
        DOWN_AFTER_MS + 3_000
    } else {
        0
    }
}

/// Round after round of all kinds, each round in another order.
async fn injure(args: &Args, stage: &mut Stage, kinds: &[Kind]) -> Result<Done> {
    let started = Instant::now();
    let (mut done, mut queue, mut shown) = (Done::new(), Vec::new(), Instant::now());
    let mut is_first = true;
    loop {
        let gap = stage.dice.u64(200..stage.lock_ms + 1_500);
        // Now and then everything has twice the time that it may take to recover: what has not,
        // shows.
        let rest = 2 * (stage.lock_ms + GRACE_MS + args.skew_ms);
        let is_long = stage.dice.u32(..RESTS) == 0;
        tokio::time::sleep(millis(if is_long { rest } else { gap })).await;
        stage.recorder.record_clock();
        let sent: u64 = stage.submitters.iter().map(super::Process::done).sum();
        let is_over = started.elapsed() >= seconds(args.seconds) && sent >= args.tasks;
        if queue.is_empty() {
            if is_over && !is_first {
                break;
            }
            queue.extend(kinds);
            stage.dice.shuffle(&mut queue);
        }
        if is_over && !is_first {
            break;
        }
        if let Some(kind) = queue.pop() {
            let is_evident = fault::inflict(kind, stage).await?;
            let counts = done.entry(kind).or_default();
            counts.0 += 1;
            counts.1 += u64::from(is_evident);
        }
        is_first &= !queue.is_empty();
        stand(stage)?;
        if shown.elapsed() >= PROGRESS {
            shown = Instant::now();
            show(stage, started.elapsed(), &done);
        }
    }
    show(stage, started.elapsed(), &done);
    for (kind, (times, evident)) in &done {
        println!("  {:<20} {times} times, evident {evident}", kind.name());
    }
    Ok(done)
}

/// Nobody ends but those whom the driver ends.
fn stand(stage: &mut Stage) -> Result<()> {
    for process in stage.processes() {
        if let Some(status) = process.ended()? {
            return process.failure(&format!("has ended by itself: {status}"));
        }
    }
    match stage.effect_log.ended()? {
        Some(status) => failure(format!("the effect log has ended: {status}")),
        None => Ok(()),
    }
}

fn show(stage: &Stage, elapsed: Duration, done: &Done) {
    let sent: u64 = stage.submitters.iter().map(super::Process::done).sum();
    let started: u64 = stage.workers.iter().map(super::Process::done).sum();
    let faults: u64 = done.values().map(|(times, _)| times).sum();
    println!(
        "{:>5} s: {sent} tasks sent, {started} attempts started, {faults} faults of {} kinds",
        elapsed.as_secs(),
        done.len()
    );
}
