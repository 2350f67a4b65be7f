//! The workflows of the public host.

use std::process::Command;

use serde_json::Value;

use crate::{place, read, yaml};

fn workflow(name: &str) -> Value {
    yaml(&read(&format!(".github/workflows/{name}.yml")))
}

#[test]
fn a_release_is_tested_and_packed_before_anything_is_published() {
    let release = workflow("release");
    let jobs = release["jobs"].as_object().unwrap();
    let needs = |job: &str| match &jobs[job]["needs"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(all) => all
            .iter()
            .map(|one| one.as_str().unwrap().to_owned())
            .collect(),
        _ => Vec::new(),
    };
    let before = ["test", "dist", "crates-dry-run", "clients-dry-run"];
    assert_eq!(needs("release"), before);
    assert_eq!(
        jobs["release"]["if"],
        "startsWith(github.ref, 'refs/tags/v')"
    );
    for publisher in ["crates", "python", "typescript", "go", "java"] {
        assert_eq!(needs(publisher), ["release"], "{publisher}");
        assert_eq!(jobs[publisher]["environment"], "release", "{publisher}");
    }
    assert_eq!(
        release["permissions"],
        serde_json::json!({"contents": "read"})
    );
    for (name, job) in jobs {
        assert!(job["timeout-minutes"].is_u64(), "{name} may hang");
    }
}

#[test]
fn the_workflows_call_commands_that_exist() {
    let program = read("xtask/src/main.rs");
    for name in ["ci", "release"] {
        let text = read(&format!(".github/workflows/{name}.yml"));
        let commands = text.split("cargo xtask ").skip(1);
        let names = commands.filter_map(|rest| rest.split([' ', '\n', '`', '.']).next());
        for command in names.filter(|command| !command.is_empty()) {
            let mut capital = command.to_owned();
            capital[..1].make_ascii_uppercase();
            assert!(
                program.contains(&format!("    {capital}(")),
                "{name}: {command}"
            );
        }
    }
}

#[test]
fn actionlint_finds_nothing_in_the_workflows() {
    let folder = place(".github/workflows");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    match Command::new("actionlint")
        .args(files)
        .current_dir(place(""))
        .output()
    {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        ),
        Err(_) => println!("LEFT OUT: actionlint is not here, which judges the workflows"),
    }
}

/// What `mvn deploy` and `npm publish` refuse on the day of a release.
#[test]
fn clients_have_what_their_registries_ask_for() {
    let pom = read("clients/java/pom.xml");
    let (_, release) = pom.split_once("<id>release</id>").unwrap();
    for plugin in ["source", "javadoc", "gpg", "central-publishing"] {
        let plugin = format!("<artifactId>{plugin}-maven-plugin</artifactId>");
        let other = plugin
            .replace("-maven-plugin", "-plugin")
            .replace("<artifactId>", "<artifactId>maven-");
        assert!(
            release.contains(&plugin) || release.contains(&other),
            "{plugin}"
        );
    }
    let server = "<publishingServerId>central</publishingServerId>";
    assert!(release.contains(server));
    for field in [
        "name",
        "description",
        "url",
        "licenses",
        "developers",
        "scm",
    ] {
        assert!(pom.contains(&format!("\n  <{field}>")), "{field}");
    }
    let workflow = read(".github/workflows/release.yml");
    for part in ["server-id: central\n", "--tag \"$tag\"", "-Prelease deploy"] {
        assert!(workflow.contains(part), "{part}");
    }
}
