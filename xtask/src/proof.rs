//! Calls of cargo in `proof/` and in other workspaces beside that of the product.

use std::path::{Path, PathBuf};

use crate::call::{Call, root};

/// A command line to be run in the workspace of the proofs.
pub(crate) fn call(line: &str) -> Call {
    call_in("proof", line)
}

/// A command line to be run in the workspace in `folder`. It builds into the target folder of the
/// product, so that what both need is built once.
pub(crate) fn call_in(folder: &str, line: &str) -> Call {
    let call = Call::new(line).folder(root().join(folder));
    if std::env::var_os("CARGO_TARGET_DIR").is_some() {
        return call;
    }
    // Relative to the folder of the call: the line can be repeated from there.
    let up = "../".repeat(Path::new(folder).components().count());
    call.variable("CARGO_TARGET_DIR", format!("{up}target"))
}

/// Renders the guide as a book; a link to nowhere fails it.
pub(crate) fn book() -> Call {
    call("cargo run --locked --package delayq-book")
}

/// Builds delayq-server, optimised, into the folder of the programs that start it.
pub(crate) fn build_server() -> Call {
    Call::new("cargo build --locked --release --package delayq-server")
}

/// The folder that the proofs build into.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    // A relative one is meant from the folder of the call, as cargo takes it.
    target.map_or_else(
        || root().join("target"),
        |target| root().join("proof").join(target),
    )
}
