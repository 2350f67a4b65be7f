//! Tasks to a file, from a file, and from store to store.

use std::process::Stdio;

use crate::stage::Stage;

#[test]
fn tasks_travel_by_a_file_a_pipe_and_a_copy_and_a_repeat_doubles_none() {
    let (from, to) = (Stage::sqlite(), Stage::redis());
    from.kill(&["no van"]);
    for id in ["a", "b", "c"] {
        from.json(0, &["send", "mail.send", "{}", "--id", id, "--after", "1h"]);
    }
    let file = from.file("tasks.jsonl").display().to_string();
    let export = ["export", "*", "--file", &file];
    let report = from.json(0, &export);
    assert_eq!(
        (&report["written"], &report["dead_left_out"]),
        (&3.into(), &1.into())
    );
    from.json(1, &export);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 3);

    assert_eq!(to.json(0, &["import", "--file", &file])["written"], 3);
    let again = to.json(0, &["import", "--file", &file]);
    assert_eq!(
        (&again["written"], &again["existing"]),
        (&0.into(), &3.into())
    );

    let other = ["--to", &to.url, "--to-namespace", "other"];
    let copy = [&["copy", "mail.*"], &other[..]].concat();
    let dry = from.json(0, &[&copy[..], &["--dry-run"]].concat());
    assert_eq!(dry["count"], 3);
    assert_eq!(from.json(0, &copy)["written"], 3);
    let with_dead = from.json(0, &[&copy[..], &["--dead"]].concat());
    assert_eq!(
        (&with_dead["written"], &with_dead["existing"]),
        (&1.into(), &3.into())
    );
    from.json(2, &["copy", "mail.*", "--to", &from.url]);
    let there = to.json(0, &["stats", "mail.send", "--namespace", "other"]);
    assert_eq!(there["scheduled"], 4);

    let imports = format!("import {file}");
    let expected = ["begun", "done", "begun", "done"].map(|end| format!("{imports} {end}"));
    assert_eq!(to.log(), expected);
    let copies = to.json(0, &["log", "--namespace", "other", "--verb", "copy"]);
    assert_eq!(copies["actions"].as_array().unwrap().len(), 4);
}

#[cfg(unix)]
#[test]
fn a_copy_of_a_store_onto_itself_under_another_name_is_refused() {
    let stage = Stage::sqlite();
    let send = [
        "send",
        "mail.send",
        "{}",
        "--id",
        "a",
        "--after",
        "1h",
        "--create",
    ];
    stage.json(0, &send);
    let link = stage.file("link");
    std::os::unix::fs::symlink(stage.file("."), &link).unwrap();
    let file = stage.url.rsplit('/').next().unwrap();
    let other = format!("sqlite:{}/{file}", link.display());
    let mut copy = stage.command(&["copy", "mail.*", "--to", &other]);
    let refused = copy.output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("the same store"), "{said}");
    let other = ["copy", "mail.*", "--to", &other, "--to-namespace", "other"];
    assert_eq!(stage.json(0, &other)["written"], 1);
}

#[test]
fn an_export_goes_through_a_pipe_and_a_broken_line_is_named() {
    let (from, to) = (Stage::sqlite(), Stage::sqlite());
    from.json(
        0,
        &[
            "send",
            "mail.send",
            "{}",
            "--id",
            "a",
            "--after",
            "1h",
            "--create",
        ],
    );
    let mut source = from.command(&["export", "mail.send"]);
    let mut source = source.stdout(Stdio::piped()).spawn().unwrap();
    let lines = source.stdout.take().unwrap();
    let sent = to.command(&["import"]).stdin(lines).output().unwrap();
    assert!(sent.status.success() && source.wait().unwrap().success());
    assert_eq!(to.json(0, &["stats", "mail.send"])["scheduled"], 1);

    let file = from.file("broken.jsonl");
    let line = from.text(&["export", "mail.send"]);
    std::fs::write(&file, format!("{line}nonsense\n")).unwrap();
    let name = file.display().to_string();
    let output = to.command(&["import", "--file", &name]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("line 2: no task"), "{said}");
    assert_eq!(to.log().last().unwrap(), &format!("import {name} failed"));
}

/// An editor put a byte order mark before the first line, and it was told to be no JSON; what
/// PowerShell writes with `>` was told to be damaged.
#[test]
fn a_byte_order_mark_is_read_over_and_utf_16_is_named() {
    let (from, to) = (Stage::sqlite(), Stage::sqlite());
    from.json(0, &["send", "mail.send", "{}", "--id", "a", "--create"]);
    let text = from.text(&["export", "mail.send"]);
    let file = from.file("marked.jsonl");
    std::fs::write(&file, format!("\u{feff}{text}")).unwrap();
    let name = file.display().to_string();
    assert_eq!(to.json(0, &["import", "--file", &name])["written"], 1);
    let wide: Vec<u8> = "\u{feff}"
        .encode_utf16()
        .chain(text.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    std::fs::write(&file, wide).unwrap();
    let said = to.refusal(2, &["import", "--file", &name]);
    assert!(said.contains("UTF-16"), "{said}");
}
