//! What stands in `generated` is what the `.proto` files say. protox compiles them, so no protoc
//! is needed; the crate itself depends on neither.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::fs;
use std::path::{Path, PathBuf};

const FILES: [&str; 7] = [
    "delayq/v1/delayq.proto",
    "delayq/v1/error.proto",
    "delayq/v1/history.proto",
    "delayq/v1/insight.proto",
    "delayq/v1/operate.proto",
    "delayq/v1/task.proto",
    "delayq/v1/work.proto",
];

/// The public task service, which is served on a listener of its own.
const TASKS: [&str; 1] = ["delayq/tasks/v1/task_service.proto"];

fn generate(files: &[&str], descriptors: &str, into: &Path) {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let mut compiler = protox::Compiler::new([proto]).unwrap();
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(files).unwrap();
    let set = compiler.encode_file_descriptor_set();
    fs::write(into.join(descriptors), set).unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .btree_map(".")
        .out_dir(into)
        .compile_fds(compiler.file_descriptor_set())
        .unwrap();
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Files that differ are written anew: look at the change, and run the test again.
#[test]
fn the_generated_code_is_that_of_the_proto_files() {
    let folder = tempfile::tempdir().unwrap();
    generate(&FILES, "descriptors.bin", folder.path());
    generate(&TASKS, "tasks.bin", folder.path());
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    let name = |path: &PathBuf| path.file_name().unwrap().to_owned();
    let (fresh, present) = (files_of(folder.path()), files_of(&here));
    let names = |files: &[PathBuf]| files.iter().map(name).collect::<Vec<_>>();
    assert_eq!(names(&fresh), names(&present));
    let mut written = Vec::new();
    for (fresh, present) in fresh.iter().zip(&present) {
        let text = fs::read(fresh).unwrap();
        if text != fs::read(present).unwrap() {
            fs::write(present, text).unwrap();
            written.push(name(present));
        }
    }
    assert!(written.is_empty(), "written anew: {written:?}");
}
