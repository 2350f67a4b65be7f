//! The macro's code works in an application that renames the dependency, and in a release build.
//!
//! What registers a worker is reached by nothing but the linker's tables. Optimization across
//! crates, or a library of which no name is used, could drop it without an error.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_worker_survives_a_renamed_dependency_and_link_time_optimization() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixture = tests.join("fixtures/renamed");
    // The same versions as everywhere, so that nothing has to be downloaded.
    fs::copy(tests.join("../Cargo.lock"), fixture.join("Cargo.lock")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["run", "--release", "--offline", "--quiet"])
        .current_dir(&fixture)
        .env("CARGO_TARGET_DIR", env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let workers = String::from_utf8(output.stdout).unwrap();
    let expected = [
        "core-only.function expire",
        "core-only.impl Expire",
        "local.function function",
        "local.impl Local",
        "mail.drop DropMail",
        "mail.send send_mail",
        "report.* report",
    ];
    assert_eq!(workers.lines().collect::<Vec<_>>(), expected);
}
