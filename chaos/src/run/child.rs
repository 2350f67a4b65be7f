//! A process of a run, from the inside.

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::runtime::Builder;

use super::chore::THREADS;
use super::failure::Result;
use super::part::{Duty, Part};
use super::{sink, submitter, worker};
use crate::event::What;
use crate::record::Recorder;

/// Does what `part`, a `Part` as JSON, says. The process dies with the one that started it, also when
/// that is killed, and also when it is stopped itself.
#[must_use]
pub fn play(part: &str) -> ExitCode {
    match try_play(part) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn try_play(part: &str) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let part: Part = serde_json::from_str(part)?;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let recorder = part.recorder()?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(perform(&part, &recorder))?;
    recorder.record_clock();
    recorder.record(What::Down);
    Ok(())
}

async fn perform(part: &Part, recorder: &Recorder) -> Result<()> {
    match part.duty {
        Duty::Work => worker::work(part, recorder.clone()).await,
        Duty::Submit { per_second } => {
            submitter::submit(part, recorder, per_second, heed_input()).await;
            Ok(())
        }
        Duty::Sink => sink::serve(&part.sinks(), recorder.clone()).await,
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
