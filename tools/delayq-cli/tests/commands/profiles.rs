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

/// The document on stdout, or the one of the error, which nothing stands before.
fn answer(code: i32, command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
    let document = if output.stderr.is_empty() {
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
        let mut open = Command::new(env!("CARGO_BIN_EXE_delayq"));
        open.env_clear().env("HOME", user.here.file(""));
        open.args(["types", "--profile", "here"]);
        let output = open.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("chmod 600"),
            "{said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
        // Where a program reads, nothing stands before the document.
        let mut document = user.command(&["types", "--profile", "ther"]);
        answer(2, &mut document);
        mode(0o600).unwrap();
    }
    std::fs::write(&file, "[profiles.bad]\nurl = \"a:\"\nurl_env = \"B\"\n").unwrap();
    let error = user.json(2, &["profile", "list"]);
    let said = error["error"]["message"].as_str().unwrap();
    assert!(said.contains("profile bad"), "{said}");
}

/// The profile's namespace was forgotten: the copies went to `default`.
#[test]
fn a_copy_keeps_the_namespace_of_a_profile() {
    let user = User::new();
    let (here, there) = (&user.here.url, &user.there.url);
    user.json(0, &["profile", "add", "shop", here, "--namespace", "shop"]);
    user.json(0, &["send", "sms.send", "{}", "--after", "1h", "--create"]);
    let copied = user.json(0, &["copy", "sms.send", "--to", there]);
    assert_eq!(copied["written"], 1, "{copied}");
    let types = |namespace| user.there.json(0, &["types", "--namespace", namespace]);
    assert_eq!(first(&types("shop")), "sms.send");
    assert_eq!(types("default").as_array().unwrap().len(), 1);
    // It is the same store, and not another namespace of it.
    let mut same = user.command(&["copy", "sms.send", "--to", here, "--profile", "shop"]);
    answer(2, same.env("DELAYQ_NAMESPACE", "other"));
    user.json(
        0,
        &["copy", "sms.send", "--to", here, "--to-namespace", "b"],
    );
}

/// An inline table was left as it was, and the command said that it was changed.
#[test]
fn an_inline_table_of_profiles_is_changed_too() {
    let user = User::new();
    let file = user.here.file("inline.toml");
    let name = file.display().to_string();
    let old = format!("profiles = {{ old = {{ url = \"{}\" }} }}\n", user.here.url);
    std::fs::write(&file, old).unwrap();
    let change = |words: &[&str]| user.json(0, &[words, &["--config", &name]].concat());
    change(&["profile", "add", "new", &user.there.url, "--use"]);
    assert_eq!(first(&change(&["types"])), "order.cancel");
    change(&["profile", "remove", "old"]);
    let listed = change(&["profile", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["name"], "new");
}

/// The line of a mistake was quoted, and the password in it.
#[test]
fn no_mistake_in_the_file_shows_a_secret() {
    let user = User::new();
    let file = user.here.file("bad.toml");
    let name = file.display().to_string();
    let url = "redis://shop:hunter2@h/";
    for (text, hint) in [
        (format!("\n[profiles.prod]\nurl = \"{url}\n"), "line 3: "),
        (format!("[profiles]\nprod = \"{url}\"\n"), "profile prod: "),
        (format!("profiles = \"{url}\"\n"), "[profiles.NAME]"),
    ] {
        std::fs::write(&file, text).unwrap();
        let error = user.json(2, &["types", "--config", &name]);
        let said = error["error"]["message"].as_str().unwrap();
        assert!(said.contains(hint) && !said.contains("hunter2"), "{said}");
    }
}

/// A relative path counted from the folder of the profiles, and the variable made no file.
#[test]
fn a_file_is_named_from_where_one_is() {
    let user = User::new();
    std::fs::write(user.here.file("sec.txt"), &user.there.url).unwrap();
    let config = user.here.file("new/folder/config.toml");
    let mut add = user.command(&["profile", "add", "rel", "--url-file", "sec.txt"]);
    add.current_dir(user.here.file(""));
    answer(0, add.env("DELAYQ_CLI_CONFIG", &config));
    let mut types = user.command(&["types"]);
    let types = answer(0, types.env("DELAYQ_CLI_CONFIG", &config));
    assert_eq!(first(&types), "order.cancel");
}

/// A part that was left had the mode that it had, and one that was a link was followed.
#[cfg(unix)]
#[test]
fn a_part_that_was_left_is_not_used() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let user = User::new();
    let (file, other) = (user.here.file("p.toml"), user.here.file("other"));
    let name = file.display().to_string();
    let part = user.here.file("p.toml.part");
    std::fs::write(&part, "left").unwrap();
    let add = |profile| {
        let url = "redis://shop:hunter2@127.0.0.1:1/";
        user.json(0, &["profile", "add", profile, url, "--config", &name]);
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    };
    add("a");
    std::fs::write(&other, "own").unwrap();
    symlink(&other, &part).unwrap();
    add("b");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "own");
}

/// A command that `doctor` says acted on the store in use, and not on the one that it looked at.
#[test]
fn what_doctor_tells_to_run_names_the_store_and_no_secret() {
    let user = User::new();
    let (url, config) = (&user.here.url, user.here.file("own profiles.toml"));
    let config = config.display().to_string();
    let add = ["profile", "add", "shop", url, "--config", &config];
    user.json(0, &add);
    let command = |options: &[&str]| {
        let found = user.json(1, &[&["doctor"], options].concat());
        let found = found.as_array().unwrap().iter();
        let mut unserved = found.filter(|one| one["symptom"] == "unserved");
        unserved.next().unwrap()["command"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        command(&["--config", &config, "--profile", "shop"]),
        format!("delayq --config '{config}' --profile shop instances")
    );
    let own = ["--url", url, "--namespace", "default"];
    let own = format!("delayq {} instances", own.join(" "));
    assert_eq!(command(&["--url", url, "--namespace", "default"]), own);
}
