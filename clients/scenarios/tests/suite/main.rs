//! The clients of all languages, judged by the same sentences against a real server. A language
//! whose toolchain is not on this machine is left out, and said so.
//!
//! `DELAYQ_SENTENCE=TEXT` runs the sentences that have this text in them.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "whoever runs the tests is told what is left out, and how long each sentence took"
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

mod books;
mod driver;
mod filling;
mod language;
mod log;
mod pattern;
mod scenario;
mod server;
mod stage;
mod start_gate;
mod verdicts;

use language::Language;
use scenario::Scenario;

const RUST: &str = env!("CARGO_BIN_EXE_delayq-driver");

/// The sentences that were asked for.
fn wanted() -> Vec<Scenario> {
    let mut all = Scenario::all();
    if let Ok(text) = std::env::var("DELAYQ_SENTENCE") {
        all.retain(|scenario| scenario.name.contains(&text));
        assert!(!all.is_empty(), "no sentence has {text:?} in it");
    }
    all
}

fn judge(language: &str) {
    if let Some(language) = Language::build(language) {
        language.holds(wanted());
    }
}

#[test]
fn python() {
    judge("python");
}

#[test]
fn typescript() {
    judge("typescript");
}

#[test]
fn go() {
    judge("go");
}

#[test]
fn java() {
    judge("java");
}

#[test]
fn rust() {
    Language::new("rust", RUST).holds(wanted());
}
