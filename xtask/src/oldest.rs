//! The oldest rusqlite of the range in Cargo.toml: Cargo.lock holds the newest, but an application
//! with sqlx 0.9 gets the oldest, so both must compile.

use std::fs;
use std::path::Path;

use crate::call::{Call, Failure, root};
use crate::test::Outcome;

/// The lower end of the range of rusqlite in the workspace's Cargo.toml; a test compares them.
const OLDEST: &str = "0.39.0";

/// Folders with workspaces of their own.
const APART: [&str; 2] = ["delayq-summer", "proof"];

/// Checks delayq-sqlite with the oldest rusqlite, in a copy of the sources, so that the Cargo.lock
/// of the workspace stays as it is. The copy builds into the workspace's target folder: what both
/// versions need is built once.
pub(crate) fn run() -> Result<Outcome, Failure> {
    let root = root();
    let copy = root.join("target").join("min-rusqlite");
    println!("  copying the sources to target/min-rusqlite");
    copy_sources(&root, &copy)?;
    let target = root.join("target").display().to_string();
    let update = Call::new(&format!("cargo update -p rusqlite --precise {OLDEST}"));
    let check = Call::new("cargo check --locked -p delayq-sqlite");
    update.folder(&copy).run()?;
    check
        .folder(&copy)
        .variable("CARGO_TARGET_DIR", target)
        .run()?;
    Ok(Outcome::Passed)
}

/// Copies Cargo.toml, Cargo.lock and the folders of the workspace's packages.
fn copy_sources(from: &Path, to: &Path) -> Result<(), Failure> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = entry.path();
        if path.join("Cargo.toml").is_file() && !APART.iter().any(|apart| name == *apart) {
            copy_folder(&path, &to.join(&name))?;
        } else if name == "Cargo.toml" || name == "Cargo.lock" || name == "README.md" {
            fs::copy(&path, to.join(&name))?;
        }
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != "target" {
            copy_folder(&entry.path(), &to.join(entry.file_name()))?;
        } else if kind.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_checked_is_the_lower_end_of_the_range() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let line = manifest
            .lines()
            .find(|line| line.starts_with("rusqlite "))
            .unwrap();
        let lower = line
            .split(">=")
            .nth(1)
            .and_then(|rest| rest.split(',').next())
            .unwrap();
        assert_eq!(format!("{lower}.0"), OLDEST);
    }
}
