//! `cargo xtask doors`: builds the server optimised, and measures it through its doors.

use crate::bench::Args;
use crate::call::{Call, Failure};
use crate::proof;

/// Builds and runs the benchmark; the arguments are its own.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    proof::build_server().run()?;
    let server = proof::target().join("release").join("delayq-server");
    let doors = proof::call("cargo run --locked --release --package delayq-doors --");
    let doors = doors.word("--server").word(server.display().to_string());
    args.words().iter().fold(doors, Call::word).run()
}
