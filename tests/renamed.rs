//! The workers of an application are all there in a release build with link-time optimization, too.
//!
//! What registers a worker is reached by nothing but the linker's tables. Optimization across
//! crates, or a library of which no name is used, could drop it without an error. As the tests are
//! built, the application's own test has the same list.

use std::path::Path;
use std::process::Command;

#[test]
fn every_worker_survives_a_renamed_dependency_and_link_time_optimization() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(env!("CARGO"))
        .args(["run", "--release", "--locked", "--offline", "--quiet"])
        .args(["--package", "renamed"])
        .current_dir(tests.join("fixtures/renamed"))
        .env("CARGO_TARGET_DIR", env!("CARGO_TARGET_TMPDIR"))
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let workers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(workers, include_str!("fixtures/renamed/workers.txt"));
}
