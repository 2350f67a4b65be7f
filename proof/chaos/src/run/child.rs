//! A process of a run, from the inside.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::runtime::Builder;

use super::application::Application;
use super::failure::Result;
use super::part::{Duty, Part};
use super::task_body::THREADS;
use super::{effect_log, submitter, worker};
use crate::event::What;
use crate::record::Recorder;

/// The variable that holds a process's `Part` as JSON.
pub(crate) const PART: &str = "DELAYQ_CHAOS_PART";
/// What a process says once it is ready. The application may write lines of its own.
pub(crate) const UP: &str = "delayq-chaos: up";
/// What a process says of how many tasks it has sent or started; the number follows.
pub(crate) const DONE: &str = "delayq-chaos: done ";

pub(crate) fn say_up() {
    println!("{UP}");
}

pub(crate) fn say_done(count: u64) {
    println!("{DONE}{count}");
}

/// Does what `part` says; the exit code. The process dies with the one that started it, also when
/// that is killed, and also when it is stopped itself.
pub(crate) fn play(application: Arc<impl Application>, part: &str) -> i32 {
    match try_play(application, part) {
        Ok(()) => 0,
        Err(failure) => {
            eprintln!("{failure}");
            1
        }
    }
}

fn try_play(application: Arc<impl Application>, part: &str) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let part: Part = serde_json::from_str(part)?;
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
    // An application that has a log of its own keeps it.
    let _ = log.with_ansi(false).try_init();
    let recorder = part.recorder()?;
    recorder.watch()?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(perform(&part, &recorder, application))?;
    recorder.record_clock();
    recorder.record(What::Down);
    Ok(())
}

async fn perform(
    part: &Part,
    recorder: &Recorder,
    application: Arc<impl Application>,
) -> Result<()> {
    match part.duty {
        Duty::Work => worker::work(part, recorder, &*application).await,
        Duty::Submit { per_second, batch } => {
            let quiet = heed_input();
            submitter::submit(part, recorder, application, (per_second, batch), quiet).await
        }
        Duty::LogEffects => effect_log::serve(&part.effect_socket(), recorder.clone()).await,
    }
}

/// Becomes true with the first line of the input, or its end.
fn heed_input() -> Arc<AtomicBool> {
    let quiet = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&quiet);
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().lines().next();
        told.store(true, Ordering::Relaxed);
    });
    quiet
}
