//! Generates messages and stubs from the `.proto` files. protox compiles them, so no protoc is
//! needed.

use std::error::Error;
use std::path::PathBuf;

const FILES: [&str; 6] = [
    "delayq/v1/delayq.proto",
    "delayq/v1/error.proto",
    "delayq/v1/insight.proto",
    "delayq/v1/operate.proto",
    "delayq/v1/task.proto",
    "delayq/v1/work.proto",
];

/// The public task service, which is served on a listener of its own.
const TASKS: [&str; 1] = ["delayq/tasks/v1/task_service.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    generate(&FILES, "descriptors.bin")?;
    generate(&TASKS, "tasks.bin")
}

fn generate(files: &[&str], descriptors: &str) -> Result<(), Box<dyn Error>> {
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(files)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join(descriptors), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .build_transport(false)
        .btree_map(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
