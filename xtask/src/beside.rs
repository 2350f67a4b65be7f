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
    let folder = proof::target().join("beside").join(&commit);
    unpack(&commit, &folder)?;
    let manifest = write_package(&folder)?;
    let earlier = proof::call("cargo build --bin").word(EARLIER_PROGRAM);
    earlier
        .word("--manifest-path")
        .word(manifest.display().to_string())
        .run()?;
    let earlier_server = server_of(&of_server)?;
    Call::new("cargo build --locked --package delayq-server").run()?;
    proof::call("cargo build --locked --package delayq-beside --bins").run()?;
    let built = proof::target().join("debug");
    let mut driver =
        proof::call("cargo run --locked --package delayq-beside --bin delayq-beside --");
    for (option, file) in [
        ("--earlier", built.join(EARLIER_PROGRAM)),
        ("--present", built.join(PROGRAM)),
        ("--earlier-server", earlier_server),
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

/// The server of a commit, which is built once.
fn server_of(commit: &str) -> Result<PathBuf, Failure> {
    let folder = proof::target().join("beside").join(commit);
    let server = folder.join("delayq-server");
    if server.is_file() {
        return Ok(server);
    }
    unpack(commit, &folder)?;
    let manifest = folder.join("tree/Cargo.toml");
    proof::call("cargo build --locked --package delayq-server --manifest-path")
        .word(manifest.display().to_string())
        .run()?;
    fs::copy(proof::target().join("debug/delayq-server"), &server)?;
    Ok(server)
}

/// The commit's full name.
fn commit_of(revision: &str) -> Option<String> {
    let call = Call::new("git rev-parse --verify --quiet --end-of-options");
    let name = call.word(format!("{revision}^{{commit}}")).output()?;
    Some(name.trim().to_owned())
}

/// Puts the files of the commit into `tree` of the folder, once. They carry the time of the commit,
/// so cargo builds them once, too.
fn unpack(commit: &str, folder: &Path) -> Result<(), Failure> {
    let tree = folder.join("tree");
    if tree.is_dir() {
        return Ok(());
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
    Ok(())
}

/// Writes a package with the program of this tree and the crates of the earlier one; returns its
/// manifest. Its dependencies are as the earlier one locked them.
fn write_package(folder: &Path) -> Result<PathBuf, Failure> {
    let package = folder.join("program");
    fs::create_dir_all(&package)?;
    let proofs = fs::read_to_string(root().join("proof/Cargo.toml"))?;
    let manifest = package.join("Cargo.toml");
    write_if_new(&manifest, &manifest_of(folder, &proofs))?;
    let lock = package.join("Cargo.lock");
    if !lock.exists() {
        fs::copy(folder.join("tree/Cargo.lock"), lock)?;
    }
    Ok(manifest)
}

/// The manifest: the dependencies and the profile of the proofs, so that most is built only once.
fn manifest_of(folder: &Path, proofs: &str) -> String {
    let sources = root().join("proof/beside/src");
    let mut text = format!(
        "# Written by `cargo xtask beside`.\n\
         [workspace]\nresolver = \"3\"\n\n\
         [package]\nname = \"{EARLIER_PROGRAM}\"\nedition = \"2024\"\npublish = false\n\n\
         [lib]\nname = \"delayq_beside\"\npath = {}\n\n\
         [[bin]]\nname = \"{EARLIER_PROGRAM}\"\npath = {}\n\n\
         [dependencies]\n\
         delayq-plugin = {{ path = {}, features = [\"redis\", \"sqlite\"] }}\n",
        quoted(&sources.join("lib.rs")),
        quoted(&sources.join("bin/instance/main.rs")),
        quoted(&folder.join("tree/delayq-plugin")),
    );
    for name in ["serde", "serde_json", "tokio", "tracing-subscriber"] {
        let start = format!("{name} = ");
        let line = proofs.lines().find(|line| line.starts_with(&start));
        text.extend(line.into_iter().chain(["\n"]));
    }
    let profile = proofs.find("[profile.dev]").and_then(|at| proofs.get(at..));
    text.extend(["\n", profile.unwrap_or_default()]);
    text
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
    }
}
