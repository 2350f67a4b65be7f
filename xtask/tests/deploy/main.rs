//! Files for those who run the server: the chart, the compose file, the example configuration and
//! the workflows say what the server and each other say. What the server has by itself is read from
//! the table of its guide, which a test of the server compares with the code.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]
#![allow(clippy::print_stdout, reason = "a test says what it has left out")]

mod chart;
mod compose;
mod configuration;
mod defaults;
mod values;
mod versions;
mod workflows;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The version of this workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A place in the workspace.
fn place(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(place(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A document in YAML.
fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
