//! Stores by name.

use std::process::Command;

use delayq_plugin::DelayQueueJob;
use serde_json::Value;

use crate::stage::Stage;

/// A user with a folder of his own, and two stores.
struct User {
    here: Stage,
    there: Stage,
}

impl User {
    fn new() -> Self {
        let (here, there) = (Stage::sqlite(), Stage::sqlite());
        for (stage, name) in [(&here, "mail.send"), (&there, "order.cancel")] {
            stage.plant(async |tasks| {
                tasks.send(DelayQueueJob::raw(name, "{}")).await.unwrap();
            });
        }
        Self { here, there }
    }

    fn file(&self) -> std::path::PathBuf {
        self.here.file(".config/delayq/config.toml")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayq"));
        command.env_clear().env("HOME", self.here.file(""));
        command.args(words).arg("--json");
        command
    }

    fn json(&self, code: i32, words: &[&str]) -> Value {
        answer(code, &mut self.command(words))
    }
}

fn answer(code: i32, command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
    let document = if code == 0 {
        output.stdout
    } else {
        output.stderr
    };
    serde_json::from_slice(&document).unwrap()
}

fn first(types: &Value) -> &str {
    types[0]["type"].as_str().unwrap()
}

#[test]
fn a_profile_names_a_store_and_the_nearest_source_counts() {
    let user = User::new();
    let error = user.json(2, &["types"]);
    let said = error["error"]["message"].as_str().unwrap();
    assert!(said.contains("delayq profile add"), "{said}");
    user.json(0, &["profile", "add", "here", &user.here.url]);
    assert_eq!(first(&user.json(0, &["types"])), "mail.send");
    let secret = user.here.file("secret");
    std::fs::write(&secret, format!("{}\n", user.there.url)).unwrap();
    let name = secret.display().to_string();
    user.json(0, &["profile", "add", "there", "--url-file", &name]);
    assert_eq!(first(&user.json(0, &["types"])), "mail.send");
    let there = ["types", "--profile", "there"];
    assert_eq!(first(&user.json(0, &there)), "order.cancel");
    user.json(0, &["profile", "use", "there"]);
    assert_eq!(first(&user.json(0, &["types"])), "order.cancel");
    let listed = user.json(0, &["profile", "list"]);
    assert_eq!(listed[1]["is_in_use"], true, "{listed}");

    let mut by_env = user.command(&["types"]);
    let by_env = answer(0, by_env.env("DELAYQ_URL", format!("{}\n", user.here.url)));
    assert_eq!(first(&by_env), "mail.send");
    let mut by_option = user.command(&there);
    let by_option = answer(0, by_option.env("DELAYQ_URL", &user.here.url));
    assert_eq!(first(&by_option), "order.cancel");
    let mut both = user.command(&["types"]);
    both.env("DELAYQ_PROFILE", "here");
    assert_eq!(first(&answer(0, &mut both)), "mail.send");
    answer(2, both.env("DELAYQ_URL", &user.here.url));

    let error = user.json(2, &["types", "--profile", "ther"]);
    let said = error["error"]["message"].as_str().unwrap();
    assert!(said.contains("did you mean there?"), "{said}");
    user.json(1, &["profile", "add", "here", &user.here.url]);
    user.json(2, &["profile", "add", "web", "http://127.0.0.1:7880/"]);
    user.json(0, &["profile", "remove", "there"]);
    user.json(2, &["types"]);
    user.json(2, &["profile", "remove", "there"]);
}

#[test]
fn the_file_is_private_keeps_its_comments_and_shows_no_secret() {
    let user = User::new();
    let url = "redis://shop:hunter2@127.0.0.1:1/";
    user.json(0, &["profile", "add", "prod", url, "--namespace", "orders"]);
    let listed = user.json(0, &["profile", "list"]);
    assert_eq!(listed[0]["url"], "redis://***@127.0.0.1:1/");
    assert_eq!(listed[0]["namespace"], "orders");
    let file = user.file();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        format!("# of the shop\ncall_timeout = \"300ms\"\n{text}"),
    )
    .unwrap();
    user.json(0, &["profile", "add", "here", &user.here.url]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# of the shop\n"), "{text}");
    // The options of an application hold beside the profiles.
    let begin = std::time::Instant::now();
    user.json(3, &["types", "--profile", "prod"]);
    assert!(begin.elapsed() < std::time::Duration::from_secs(10));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode));
        let own = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(own & 0o777, 0o600);
        mode(0o644).unwrap();
        let mut open = user.command(&["types", "--profile", "here"]);
        let output = open.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("chmod 600"),
            "{said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
    }
    std::fs::write(&file, "[profiles.bad]\nurl = \"a:\"\nurl_env = \"B\"\n").unwrap();
    let error = user.json(2, &["profile", "list"]);
    let said = error["error"]["message"].as_str().unwrap();
    assert!(said.contains("profile bad"), "{said}");
}
