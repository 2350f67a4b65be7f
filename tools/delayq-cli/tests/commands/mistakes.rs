//! What is not there, and what cannot be meant: nothing succeeds, and the answer says what to do.

use delayq_plugin::DelayQueueJob;

use crate::stage::Stage;

fn stage() -> Stage {
    let stage = Stage::sqlite();
    stage.plant(async |tasks| {
        let job = DelayQueueJob::raw("sms.send", "{}").id("s-1");
        tasks.send(job).await.unwrap();
    });
    stage
}

/// `pause sms.snt` said `paused` and ended with 0, and sms.send ran on.
#[test]
fn a_type_that_is_not_there_is_refused_with_the_name_that_was_meant() {
    let stage = stage();
    let commands: [&[&str]; 23] = [
        &["types", "sms.snt"],
        &["stats", "sms.snt"],
        &["figures", "sms.snt"],
        &["forecast", "sms.snt"],
        &["list", "sms.snt"],
        &["show", "sms.snt", "s-1"],
        &["explain", "sms.snt", "s-1"],
        &["send", "sms.snt", "{}"],
        &["cancel", "sms.snt", "s-1"],
        &["run-now", "sms.snt", "s-1"],
        &["update", "sms.snt", "s-1", "--message", "{}"],
        &["cancel-all", "sms.snt", "--all", "--yes"],
        &["dead", "list", "sms.snt"],
        &["dead", "requeue", "sms.snt", "--all", "--yes"],
        &["dead", "groups", "sms.snt"],
        &["pause", "sms.snt"],
        &["resume", "sms.snt"],
        &["configure", "sms.snt", "--max-pending", "5"],
        &["drop-type", "sms.snt", "--yes"],
        &["purge", "sms.snt", "--state", "dead", "--yes", "sms.snt"],
        &["audit", "sms.snt"],
        &["export", "sms.snt"],
        &["watch", "sms.snt"],
    ];
    for words in commands {
        let said = stage.refusal(1, words);
        assert!(said.contains("did you mean sms.send?"), "{words:?}: {said}");
    }
    let said = stage.refusal(1, &["pause", "report.nightly"]);
    assert!(said.contains("--create makes it"), "{said}");
    assert_eq!(stage.log().len(), 0);
    let types = stage.json(0, &["types"]);
    assert_eq!(types.as_array().unwrap().len(), 1, "{types}");
    let said = stage.refusal(1, &["types", "--namespace", "shp"]);
    assert!(said.contains("namespace shp"), "{said}");

    stage.json(0, &["pause", "report.nightly", "--create"]);
    let sent = stage.json(0, &["send", "report.daily", "{}", "--create"]);
    assert_eq!(sent["is_served"], false);
    let said = stage.text(&["send", "report.daily", "{}"]);
    assert!(said.contains("nobody serves report.daily"), "{said}");
    let types = stage.json(0, &["types"]);
    assert_eq!(types.as_array().unwrap().len(), 3, "{types}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    let stage = stage();
    for (words, hint) in [
        (&["list", "sms.send", "--limit", "0"][..], "1..=100000"),
        (&["send", "sms.send", "--after", "-5m"], "not negative"),
        (
            &["reschedule", "sms.send", "s-1", "--after", "-5m"],
            "not negative",
        ),
        (&["configure", "sms.send", "--shards", "4"], "has no shards"),
        (&["send", "sms.send", "@none.json"], "--message"),
    ] {
        let said = stage.refusal(2, words);
        assert!(said.contains(hint), "{words:?}: {said}");
    }
    let taken = ["send", "sms.send", "{}", "--id", "s-1", "--after", "1h"];
    let said = stage.refusal(1, &taken);
    assert!(said.contains("--replace or --keep"), "{said}");
    let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_delayq"));
    server.env_clear().arg("types");
    let output = server
        .env("DELAYQ_URL", "http://127.0.0.1:7880/v1/default")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("delayq://TOKEN@HOST"), "{said}");
}

/// Of two options that exclude each other one won, where the command stood between them.
#[test]
fn options_that_exclude_each_other_are_refused_on_both_sides_of_the_command() {
    let stage = stage();
    for words in [
        &["types", "--profile", "nope"][..],
        &["--json", "types", "-o", "yaml"],
        &["-o", "table", "types", "--json"],
    ] {
        let said = stage.refusal(2, words);
        assert!(said.contains("write one of them"), "{words:?}: {said}");
    }
    stage.text(&["--json", "types", "-o", "json"]);
}

#[test]
fn a_message_is_literal_where_it_is_said_so_and_may_be_as_large_as_a_store_takes() {
    let stage = stage();
    let message = |id: &str| stage.json(0, &["show", "sms.send", id])["task"]["message"].clone();
    stage.json(0, &["send", "sms.send", "@@ann hello", "--id", "a"]);
    stage.json(0, &["send", "sms.send", "--message", "@ann", "--id", "b"]);
    stage.json(0, &["send", "sms.send", "--message", "-", "--id", "c"]);
    assert_eq!(message("a"), "@ann hello");
    assert_eq!(message("b"), "@ann");
    assert_eq!(message("c"), "-");
    let file = stage.file("large");
    std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
    let name = file.display().to_string();
    stage.json(
        0,
        &[
            "send", "sms.send", "--file", &name, "--id", "d", "--after", "1h",
        ],
    );
    stage.json(0, &["update", "sms.send", "d", "--file", &name]);
    std::fs::write(&file, "x".repeat((1 << 20) + 1)).unwrap();
    stage.refusal(2, &["update", "sms.send", "d", "--file", &name]);
}
