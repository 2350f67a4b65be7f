//! The oldest Rust, and the oldest rusqlite, that Cargo.toml allows. Cargo.lock holds the newest
//! rusqlite of the range, but an application with sqlx 0.9 gets the oldest, so both must compile.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::call::{Call, Failure, root};

/// The lower end of the range of rusqlite in the workspace's Cargo.toml; a test compares them.
const OLDEST: &str = "0.39.0";

/// A workspace beside that of the product.
const APART: &str = "proof";

/// Checks what an application builds with the oldest Rust, where rustup has it or can fetch it.
/// Elsewhere the lint `incompatible_msrv`, which Cargo.toml denies and the clippy step runs, stands
/// for it: it knows since when each item of the standard library is there. So does Cargo.toml's
/// own word on every dependency.
pub(crate) fn rust() -> Result<(), Failure> {
    let version = oldest_rust()?;
    let has = || Call::new(&format!("rustup run {version} cargo --version")).succeeds();
    let install = format!("rustup toolchain install {version} --profile minimal");
    if has() || (Call::new(&install).succeeds() && has()) {
        let target = root().join("target/oldest-rust").display().to_string();
        let check = format!("rustup run {version} cargo check --locked --workspace");
        return Call::new(&check).variable("CARGO_TARGET_DIR", target).run();
    }
    println!(
        "  Rust {version} cannot be had here: the lint incompatible_msrv of the clippy step and the \
         rust-version of each dependency stand for it"
    );
    dependencies(&version)
}

/// The `rust-version` of the workspace.
fn oldest_rust() -> Result<String, Failure> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let mut lines = manifest.lines();
    let version = lines.find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.ok_or_else(|| Failure("Cargo.toml has no rust-version".to_owned()))?;
    Ok(version.trim_matches('"').to_owned())
}

/// Refuses a locked dependency that asks for a newer Rust.
fn dependencies(oldest: &str) -> Result<(), Failure> {
    let call = Call::new("cargo metadata --locked --format-version 1");
    let metadata = call.output().unwrap_or_default();
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|error| Failure(format!("`{call}` printed no JSON: {error}")))?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    let newer = |package: &&Value| {
        let asked = package.get("rust_version").and_then(Value::as_str);
        asked.is_some_and(|asked| numbers(asked) > numbers(oldest))
    };
    let named = |package: &Value| {
        let text = |key| package.get(key).and_then(Value::as_str).unwrap_or("?");
        format!(
            "{} {} needs {}",
            text("name"),
            text("version"),
            text("rust_version")
        )
    };
    let found: Vec<_> = packages
        .into_iter()
        .flatten()
        .filter(newer)
        .map(named)
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure(format!(
        "Cargo.toml promises Rust {oldest}: {}",
        found.join(", ")
    )))
}

/// `1.91` as numbers that can be compared.
fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect()
}

/// Checks delayq-sqlite with the oldest rusqlite, in a copy of the sources, so that the Cargo.lock
/// of the workspace stays as it is. The copy builds into the workspace's target folder: what both
/// versions need is built once.
pub(crate) fn rusqlite() -> Result<(), Failure> {
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
        .run()
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
        if holds_packages(&path)? && name != APART {
            copy_folder(&path, &to.join(&name))?;
        } else if name == "Cargo.toml" || name == "Cargo.lock" || name == "README.md" {
            fs::copy(&path, to.join(&name))?;
        }
    }
    Ok(())
}

/// Is a package, or a folder of some.
fn holds_packages(path: &Path) -> Result<bool, Failure> {
    if !path.is_dir() || path.join("Cargo.toml").is_file() {
        return Ok(path.is_dir());
    }
    for entry in fs::read_dir(path)? {
        if entry?.path().join("Cargo.toml").is_file() {
            return Ok(true);
        }
    }
    Ok(false)
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
    fn versions_of_rust_are_compared_by_number() {
        assert!(numbers("1.100") > numbers("1.91"));
        assert!(numbers("1.91.0") > numbers("1.90.1"));
        assert!(!oldest_rust().unwrap().is_empty());
        assert!(dependencies("1.0").unwrap_err().0.contains(" needs 1."));
    }

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
