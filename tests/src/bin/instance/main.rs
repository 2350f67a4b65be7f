//! One instance of a fleet under test: a real plugin that logs what happens to it, and can be
//! killed at any moment without losing a line. Told what to do by a plan (its argument) and by
//! commands (its input), see `delayq_tests::instance`.

use std::io::BufRead;
use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq_plugin::{DelayQueuePlugin, millis};
use delayq_tests::instance::log::{Log, What, stalls_beside};
use delayq_tests::instance::plan::Plan;
use delayq_tests::instance::stalls::watch_own;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

mod block;
mod load;
mod worker;

/// Exit code of an instance whose test has gone.
const ORPHANED: i32 = 3;

fn main() -> ExitCode {
    let plan = std::env::args().nth(1).expect("a plan as the one argument");
    let plan: Plan = serde_json::from_str(&plan).expect("a plan as JSON");
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    fastrand::seed(plan.seed);
    let mut builder = if plan.single_thread {
        Builder::new_current_thread()
    } else {
        Builder::new_multi_thread()
    };
    let runtime = builder.worker_threads(Plan::THREADS).enable_all().build();
    runtime.expect("a runtime can be made").block_on(run(plan));
    ExitCode::SUCCESS
}

async fn run(plan: Plan) {
    let log = Arc::new(Log::append_to(&plan.log));
    let stalls = stalls_beside(&plan.log);
    watch_own(move |stall| {
        let from = stall.from.as_millis();
        Log::append_to(&stalls).write(What::Stalled { from });
    });
    let plugin = start(&plan, &log).await;
    log.write(What::Up);
    let quiet = Arc::new(AtomicBool::new(plan.load.is_none()));
    if let Some(load) = &plan.load {
        let tasks = plugin.submit_service();
        let senders = load::start(load, &plan.name, &tasks, &log, &quiet);
        tokio::spawn(load::report_end(senders, Arc::clone(&log)));
    }
    tokio::spawn(obey(
        commands(),
        plan.single_thread,
        Arc::clone(&log),
        quiet,
    ));
    match plan.grace_ms {
        None => plugin.run_until_signal().await.expect("signals are heard"),
        Some(grace) => {
            let mut terminate = signal(SignalKind::terminate()).expect("signals are heard");
            terminate.recv().await;
            plugin.shutdown(millis(grace)).await;
        }
    }
    let handlers = plugin.health().await.handlers;
    let locks_lost = handlers.iter().map(|handler| handler.locks_lost).sum();
    log.write(What::Down { locks_lost });
}

async fn start(plan: &Plan, log: &Arc<Log>) -> DelayQueuePlugin {
    let mut builder = DelayQueuePlugin::builder()
        .without_registered_workers()
        .url(&plan.url)
        .poll_interval(millis(plan.poll_ms))
        .max_lock_expiries(plan.max_lock_expiries);
    for served in &plan.served {
        let worker = worker::Logged(Arc::clone(log));
        builder = builder.worker(served.task_type.clone(), served.options(), worker);
    }
    builder.start().await.expect("the plugin starts")
}

/// The lines of the input. At its end the test has gone, and this process goes, too.
fn commands() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            // Nobody obeys any more while the plugin shuts down.
            let _ = sender.send(line);
        }
        exit(ORPHANED);
    });
    receiver
}

async fn obey(
    mut commands: mpsc::UnboundedReceiver<String>,
    single_thread: bool,
    log: Arc<Log>,
    quiet: Arc<AtomicBool>,
) {
    while let Some(command) = commands.recv().await {
        match command.split_once(' ') {
            None if command == "quiet" => quiet.store(true, Ordering::Relaxed),
            Some(("block", ms)) => {
                let span = millis(ms.parse().expect("a number of milliseconds"));
                let threads = if single_thread { 1 } else { Plan::THREADS };
                block::block(threads, span, &log);
            }
            _ => panic!("unknown command {command:?}: quiet, or block MILLISECONDS"),
        }
    }
}
