//! What `docs/deploy` has for systemd and containers.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::collections::BTreeSet;
use std::process::Command;

const UNIT: &str = include_str!("../../../docs/deploy/delayq-server.service");
const EXAMPLE: &str = include_str!("../../../docs/deploy/server.toml");
const CONTAINER: &str = include_str!("../../../docs/deploy/Containerfile");
const WORKSPACE: &str = include_str!("../../../Cargo.toml");

/// The unit with a program that is there, as systemd refuses one that is not.
fn unit() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("delayq-server.service");
    let program = env!("CARGO_BIN_EXE_delayq-server");
    let text = UNIT.replace("/usr/local/bin/delayq-server", program);
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

/// The example with its options set: the first one of each name, and no file that is not there.
fn uncommented(text: &str) -> String {
    let mut seen = BTreeSet::new();
    let mut table = "";
    let mut lines = Vec::new();
    for line in text.lines() {
        let option = line.strip_prefix("# ").unwrap_or(line);
        let name = option.split(" = ").next().unwrap_or_default();
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if line.starts_with('[') {
            table = line;
            lines.push(line);
        } else if option != name && is_name && !name.ends_with("_file") && table != "[tls]" {
            let is_first = seen.insert((table, name));
            lines.extend(is_first.then_some(option));
        }
    }
    lines.join("\n")
}

#[test]
fn every_option_of_the_example_configuration_exists() {
    let folder = tempfile::tempdir().unwrap();
    let all = uncommented(EXAMPLE);
    assert!(all.lines().count() > 8, "{all}");
    for text in [EXAMPLE, &all] {
        std::fs::write(folder.path().join("server.toml"), text).unwrap();
        let checked = Command::new(env!("CARGO_BIN_EXE_delayq-server"))
            .args(["check", "--config", "server.toml"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(said.starts_with("configuration: ok\n"), "{said} {text}");
    }
}

#[test]
fn systemd_understands_the_unit_and_finds_it_safe() {
    let (_folder, path) = unit();
    let Ok(verified) = Command::new("systemd-analyze")
        .args(["verify", &path])
        .output()
    else {
        return eprintln!("LEFT OUT: systemd-analyze is not here, which judges the unit");
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    let said: Vec<_> = said
        .lines()
        .filter(|line| line.contains("delayq-server"))
        .collect();
    assert_eq!(said, [""; 0]);
    // The exposure is stated in tenths, up to 100.
    let judged = Command::new("systemd-analyze")
        .args(["security", "--offline=yes", "--threshold=15", &path])
        .output()
        .unwrap();
    assert!(
        judged.status.success(),
        "{}",
        String::from_utf8_lossy(&judged.stdout)
    );
}

#[test]
fn the_image_is_built_by_the_oldest_compiler_and_runs_the_program_as_nobody() {
    let version = WORKSPACE.split_once("rust-version = \"").unwrap().1;
    let version = version.split('"').next().unwrap();
    assert!(CONTAINER.contains(&format!("rust:{version}-slim")));
    let mut text = CONTAINER.replace("\\\n", " ");
    text.retain(|c| c != '\r');
    let steps = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let steps: Vec<_> = steps.map(|line| line.split_once(' ').unwrap()).collect();
    let known = [
        "FROM",
        "RUN",
        "HEALTHCHECK",
        "LABEL",
        "WORKDIR",
        "COPY",
        "USER",
        "VOLUME",
        "ENV",
        "EXPOSE",
        "STOPSIGNAL",
        "ENTRYPOINT",
    ];
    for (instruction, _) in &steps {
        assert!(known.contains(instruction), "{instruction}");
    }
    let last = |name: &str| steps.iter().rev().find(|(one, _)| *one == name).unwrap().1;
    assert_eq!(last("USER"), "65532:65532");
    assert_eq!(last("ENTRYPOINT"), "[\"/usr/local/bin/delayq-server\"]");
    assert_eq!(last("ENV"), "DELAYQ_LISTEN=0.0.0.0:7880");
    let health = "CMD [\"/usr/local/bin/delayq-server\", \"health\", \"--live\"]";
    assert!(last("HEALTHCHECK").ends_with(health));
    let built = "-p delayq-server -p delayq-cli";
    assert!(text.contains(built) && text.contains("target/release/delayq "));
}
