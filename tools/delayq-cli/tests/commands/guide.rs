//! The page of the guide: its recipes run, and it names every command.

use delayq_plugin::{DelayQueueJob, hours};

use crate::stage::Stage;

const PAGE: &str = include_str!("../../../../docs/guide/cli.md");

/// The lines of the page's shell blocks, but for how the program is installed.
fn recipes() -> Vec<&'static str> {
    let blocks = PAGE.split("```sh\n").skip(2);
    let blocks = blocks.map(|rest| rest.split("```").next().expect("it ends"));
    blocks.flat_map(str::lines).collect()
}

#[test]
fn every_recipe_of_the_guide_runs() {
    let (stage, other) = (Stage::sqlite(), Stage::sqlite());
    stage.kill_of("payment.callback", &["status 503", "no such order"]);
    stage.plant(async |tasks| {
        for job in [
            DelayQueueJob::raw("payment.callback", "{}").id("pay-1"),
            DelayQueueJob::raw("remind.mail", "{}")
                .id("r-1")
                .after(hours(9))
                .group("tenant-7"),
        ] {
            tasks.send(job).await.unwrap();
        }
    });
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_delayq"))
        .parent()
        .unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let recipes = recipes();
    assert!(recipes.len() > 15, "{recipes:?}");
    for line in recipes {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).current_dir(stage.file(""));
        shell
            .env("PATH", &path)
            .env("HOME", stage.file(""))
            .env_remove("XDG_CONFIG_HOME")
            .env("DELAYQ_URL", &stage.url)
            .env("OTHER_URL", &other.url);
        let output = shell.output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
    }
    assert_eq!(other.json(0, &["stats", "remind.mail"])["scheduled"], 1);
}

#[test]
fn the_guide_names_every_command() {
    let help = Stage::sqlite().text(&["--help"]);
    let commands = help.split("Commands:").nth(1).expect("a list");
    let commands = commands.split("\n\n").next().expect("its end");
    // Longer explanations are indented deeper.
    let names = commands.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' '));
    let names: Vec<_> = names
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names.iter().filter(|name| **name != "help") {
        assert!(
            PAGE.contains(&format!("`{name}")),
            "the guide says nothing of {name}"
        );
    }
}
