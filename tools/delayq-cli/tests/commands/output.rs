//! The forms of the output, and the pages of lists.

use delayq_plugin::{DelayQueueJob, hours};
use serde_json::Value;

use crate::stage::Stage;

const LONG: &str = "warehouse.returns.label-print";

fn busy() -> Stage {
    let stage = Stage::sqlite();
    stage.kill(&["no van 7", "no van 12", "no driver"]);
    stage.plant(async |tasks| {
        for nth in 0..3 {
            let id = format!("0198f3aa-77c1-7d2e-9a51-6b1c8f{nth:06}");
            let job = DelayQueueJob::raw(LONG, "{}").id(id).after(hours(1));
            tasks.send(job).await.unwrap();
        }
        tasks.pause(LONG, None).await.unwrap();
    });
    stage.serve();
    stage
}

/// `types` broke the names of types over several lines.
#[test]
fn tables_fit_80_columns_and_break_no_name() {
    let stage = busy();
    let looks: [&[&str]; 7] = [
        &["types"],
        &["list", LONG],
        &["dead", "list", "mail.send"],
        &["dead", "groups"],
        &["instances"],
        &["log"],
        &["figures", "mail.send"],
    ];
    stage.json(0, &["resume", LONG]);
    for words in looks {
        let mut command = stage.command(words);
        let output = command.env("COLUMNS", "80").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{words:?}: {line:?} in\n{text}");
        }
    }
    let narrow = |words: &[&str]| {
        let output = stage.command(words).env("COLUMNS", "80").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(narrow(&["types"]).contains(LONG));
    assert!(narrow(&["list", LONG]).contains("0198f3aa-77c1-7d2e-9a51-6b1c8f000002"));
    let wide = stage.text(&["types", "-o", "wide"]);
    assert!(
        wide.contains("LATE p99") && wide.contains("SERVED BY"),
        "{wide}"
    );
}

#[test]
fn every_form_holds_the_same_and_errors_have_the_form_too() {
    let stage = busy();
    let json = stage.text(&["list", LONG, "-o", "json"]);
    assert_eq!(json, stage.text(&["list", LONG, "--json"]));
    let yaml = stage.text(&["stats", LONG, "-o", "yaml"]);
    assert!(yaml.contains(&format!("type: {LONG}\n")), "{yaml}");
    assert!(yaml.contains("\nscheduled: 3\n"), "{yaml}");
    let version = stage.json(0, &["version"]);
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));

    let error = |code, words: &[&str]| {
        let said = stage.refusal(code, words);
        serde_json::from_str::<Value>(&said).unwrap_or_else(|_| panic!("{said}"))["error"].clone()
    };
    let unknown = error(1, &["pause", "mail.snd", "--json"]);
    assert_eq!(
        (&unknown["code"], &unknown["kind"], &unknown["nearest"]),
        (&1.into(), &"refused".into(), &"mail.send".into())
    );
    let usage = error(2, &["lst", "mail.send", "-o", "json"]);
    assert_eq!(usage["kind"], "usage");
    assert!(
        usage["message"].as_str().unwrap().contains("lst"),
        "{usage}"
    );
    let said = stage.refusal(1, &["pause", "mail.snd", "-o", "yaml"]);
    assert!(said.starts_with("error:\n"), "{said}");
}

#[test]
fn every_list_has_pages() {
    let stage = busy();
    let ids = |page: &Value| -> Vec<String> {
        let tasks = page["tasks"].as_array().unwrap();
        let ids = tasks.iter().map(|one| one["id"].as_str().unwrap());
        ids.map(str::to_owned).collect()
    };
    let first = stage.json(0, &["dead", "list", "mail.send", "--limit", "2"]);
    let cursor = first["next"].as_str().unwrap();
    let rest = stage.json(0, &["dead", "list", "mail.send", "--cursor", cursor]);
    assert_eq!(
        (ids(&first), ids(&rest)),
        (
            vec!["d-0".to_owned(), "d-1".to_owned()],
            vec!["d-2".to_owned()]
        )
    );
    assert!(rest["next"].is_null());
    let vans = [
        "dead",
        "list",
        "mail.send",
        "--error",
        "van",
        "--limit",
        "1",
    ];
    let van = stage.json(0, &vans);
    let cursor = van["next"].as_str().unwrap();
    let second = stage.json(0, &[&vans[..], &["--cursor", cursor]].concat());
    assert_eq!(ids(&second), ["d-1"]);

    let types = stage.text(&["types", "--limit", "1"]);
    assert!(types.contains("more: --cursor mail.send"), "{types}");
    let rest = stage.json(0, &["types", "--cursor", "mail.send"]);
    assert_eq!(rest[0]["type"], LONG);
    assert_eq!(rest.as_array().unwrap().len(), 1);
}
