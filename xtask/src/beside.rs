//! `cargo xtask beside`: builds one small program against an earlier revision and against this
//! tree, and has the package in `proof/beside` run both on one store.

use std::fs;
use std::path::{Path, PathBuf};

use crate::call::{Call, Failure, root};
use crate::left_out::LeftOut;
use crate::proof;

/// The revision that stands for the previous release, as none is published yet: the last one before
/// tasks got their log of errors, and types their totals. A release moves it to its own tag.
const PREVIOUS: &str = "c423a36";

/// The revision of the earlier server, as the one above has none: the last one before the history,
/// the cold store and packed far tasks. A release moves it to its own tag, too.
const PREVIOUS_SERVER: &str = "e58dbf04";

/// The program that both revisions have, and the name that it gets when it is built against the
/// earlier one: both stand in one target folder.
const PROGRAM: &str = "beside-instance";
const EARLIER_PROGRAM: &str = "beside-instance-earlier";

/// The server of the earlier revision: a program of its own, too. As members of a workspace, the
/// crates of both trees would be the same ones to cargo.
const EARLIER_SERVER: &str = "beside-server-earlier";
const SERVER_MAIN: &str = "fn main() -> std::process::ExitCode {\n    delayq_server::main()\n}\n";

/// Which revision to run beside this tree.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A git revision.
    #[arg(default_value = PREVIOUS)]
    revision: String,
    /// One part only: `sqlite` or `redis` with the plugin, or `servers`.
    #[arg(long)]
    store: Option<String>,
}

/// Builds both, and runs them. Without the revisions, as in a shallow clone, there is nothing to
/// compare with: a person is told so, and CI fails.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let commits = (commit_of(&args.revision), commit_of(PREVIOUS_SERVER));
    let (Some(commit), Some(of_server)) = commits else {
        let mut left_out = LeftOut::default();
        left_out.add(format!(
            "no rolling deploy was tested, as this checkout has not both revisions {} and \
             {PREVIOUS_SERVER}; a shallow clone gets them with `git fetch --unshallow`",
            args.revision
        ));
        return left_out.judge();
    };
    let proofs = fs::read_to_string(root().join("proof/Cargo.toml"))?;
    let folder = unpacked(&commit)?;
    build(&folder, EARLIER_PROGRAM, &manifest_of(&folder, &proofs))?;
    let folder = unpacked(&of_server)?;
    write_if_new(&folder.join("main.rs"), SERVER_MAIN)?;
    build(&folder, EARLIER_SERVER, &server_manifest(&folder, &proofs))?;
    Call::new("cargo build --locked --package delayq-server").run()?;
    proof::call("cargo build --locked --package delayq-beside --bins").run()?;
    let built = proof::target().join("debug");
    let mut driver =
        proof::call("cargo run --locked --package delayq-beside --bin delayq-beside --");
    for (option, file) in [
        ("--earlier", built.join(EARLIER_PROGRAM)),
        ("--present", built.join(PROGRAM)),
        ("--earlier-server", built.join(EARLIER_SERVER)),
        ("--present-server", built.join("delayq-server")),
    ] {
        driver = driver.word(option).word(file.display().to_string());
    }
    if let Some(part) = &args.store {
        driver = driver.word("--store").word(part);
    }
    println!(
        "  {} ({commit}) and the server of {of_server} beside this tree",
        args.revision
    );
    driver.run()
}

/// The commit's full name.
fn commit_of(revision: &str) -> Option<String> {
    let call = Call::new("git rev-parse --verify --quiet --end-of-options");
    let name = call.word(format!("{revision}^{{commit}}")).output()?;
    Some(name.trim().to_owned())
}

/// The folder of a commit, with its files in `tree`, once. They carry the time of the commit, so
/// cargo builds them once, too.
fn unpacked(commit: &str) -> Result<PathBuf, Failure> {
    let folder = proof::target().join("beside").join(commit);
    let tree = folder.join("tree");
    if tree.is_dir() {
        return Ok(folder);
    }
    let partial = folder.join("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir_all(&partial)?;
    let archive = folder.join("tree.tar").display().to_string();
    Call::new("git archive --output")
        .word(&archive)
        .word(commit)
        .run()?;
    let into = partial.display().to_string();
    Call::new("tar -xf")
        .word(&archive)
        .word("-C")
        .word(into)
        .run()?;
    fs::remove_file(&archive)?;
    // Only a whole tree gets its name.
    fs::rename(&partial, &tree)?;
    Ok(folder)
}

/// Builds a package of its own with crates of the earlier tree. Its dependencies are as that one
/// locked them.
fn build(folder: &Path, name: &str, manifest: &str) -> Result<(), Failure> {
    let package = folder.join(name);
    fs::create_dir_all(&package)?;
    let file = package.join("Cargo.toml");
    write_if_new(&file, manifest)?;
    let lock = package.join("Cargo.lock");
    if !lock.exists() {
        fs::copy(folder.join("tree/Cargo.lock"), lock)?;
    }
    let call = proof::call("cargo build --bin").word(name);
    call.word("--manifest-path")
        .word(file.display().to_string())
        .run()
}

/// The manifest of the program: the dependencies and the profile of the proofs, so that most is
/// built only once.
fn manifest_of(folder: &Path, proofs: &str) -> String {
    let sources = root().join("proof/beside/src");
    let package = package_of(EARLIER_PROGRAM, &sources.join("bin/instance/main.rs"));
    let mut text = format!(
        "{package}[lib]\nname = \"delayq_beside\"\npath = {}\n\n\
         [dependencies]\n\
         delayq-plugin = {{ path = {}, features = [\"redis\", \"sqlite\"] }}\n",
        quoted(&sources.join("lib.rs")),
        quoted(&folder.join("tree/delayq-plugin")),
    );
    for name in ["serde", "serde_json", "tokio", "tracing-subscriber"] {
        let start = format!("{name} = ");
        let line = proofs.lines().find(|line| line.starts_with(&start));
        text.extend(line.into_iter().chain(["\n"]));
    }
    text + "\n" + profile_of(proofs)
}

/// The manifest of the server.
fn server_manifest(folder: &Path, proofs: &str) -> String {
    let text = package_of(EARLIER_SERVER, &folder.join("main.rs"));
    let server = quoted(&folder.join("tree/server/delayq-server"));
    let profile = profile_of(proofs);
    format!("{text}[dependencies]\ndelayq-server = {{ path = {server} }}\n\n{profile}")
}

fn package_of(name: &str, main: &Path) -> String {
    format!(
        "# Written by `cargo xtask beside`.\n\
         [workspace]\nresolver = \"3\"\n\n\
         [package]\nname = \"{name}\"\nedition = \"2024\"\npublish = false\n\n\
         [[bin]]\nname = \"{name}\"\npath = {}\n\n",
        quoted(main),
    )
}

fn profile_of(proofs: &str) -> &str {
    let at = proofs.find("[profile.dev]");
    at.and_then(|at| proofs.get(at..)).unwrap_or_default()
}

/// A path as TOML has it.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

/// An unchanged file keeps its time, so that cargo does not build anew.
fn write_if_new(file: &Path, text: &str) -> Result<(), Failure> {
    if fs::read_to_string(file).is_ok_and(|present| present == text) {
        return Ok(());
    }
    fs::write(file, text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_is_not_there_is_none() {
        assert_eq!(commit_of("no-such-revision"), None);
    }

    #[test]
    fn the_program_of_the_earlier_revision_has_dependencies_and_profile_of_the_proofs() {
        let proofs = fs::read_to_string(root().join("proof/Cargo.toml")).unwrap();
        let manifest = manifest_of(Path::new("/earlier"), &proofs);
        let has = |start: &str| manifest.lines().any(|line| line.starts_with(start));
        let dependencies = [
            "serde = ",
            "serde_json = ",
            "tokio = ",
            "tracing-subscriber = ",
        ];
        assert!(dependencies.into_iter().all(has), "{manifest}");
        assert!(has("[profile.dev]") && has("delayq-plugin = { path = \"/earlier/tree/"));
        let server = server_manifest(Path::new("/earlier"), &proofs);
        assert!(
            server.contains("delayq-server = { path = \"/earlier/tree/server/delayq-server\" }")
        );
    }
}
