//! Planted breaches, each of which the judge finds.

use std::path::PathBuf;

use delayq_beside::FAST;
use tempfile::TempDir;

use super::*;
use crate::ledger::Expected;

/// The two releases, each with one task of the other one, and what is planted beside them.
fn judged(planted: &[Line], expected: &[(&str, Done)], killed: &[&str]) -> Result<()> {
    let folder = TempDir::new()?;
    let mut lines = vec![
        line("present-2", FAST, "a", 1, What::Started),
        line("present-2", FAST, "a", 1, What::Done),
        line("earlier-1", FAST, "b", 2, What::Started),
        line("earlier-1", FAST, "b", 2, What::Done),
    ];
    lines.extend(planted.iter().cloned());
    let mut text = String::new();
    for line in &lines {
        text.push_str(&serde_json::to_string(line)?);
        text.push('\n');
    }
    std::fs::write(folder.path().join("lines"), text)?;
    let program = PathBuf::new();
    let mut scene = Scene::new(String::new(), folder.path(), [&program, &program]);
    scene.killed.extend(killed.iter().map(ToString::to_string));
    let mut expect = |sender: &str, kind: &str, id: &str, done| {
        let expected = Expected {
            sender: sender.to_owned(),
            done,
            message: "m".to_owned(),
            not_before: 90,
        };
        scene
            .ledger
            .insert((kind.to_owned(), id.to_owned()), expected);
    };
    expect("earlier-1", FAST, "a", Done::Times(1));
    expect("present-2", FAST, "b", Done::Times(1));
    for (kind, done) in expected {
        expect("present-2", kind, "planted", *done);
    }
    judge(&scene)
}

/// A line of a task that was due at 100, written at 100 and as many ms as its fence.
fn line(instance: &str, kind: &str, id: &str, fence: u64, what: What) -> Line {
    let ms = i64::try_from(fence).unwrap_or(i64::MAX);
    Line {
        instance: instance.to_owned(),
        kind: kind.to_owned(),
        id: id.to_owned(),
        attempt: 1,
        fence,
        due: 100,
        at: 100 + ms,
        message: "m".to_owned(),
        what,
    }
}

fn planted(kind: &str, fence: u64, what: What) -> Line {
    line("present-2", kind, "planted", fence, what)
}

#[track_caller]
fn finds(result: Result<()>, what: &str) {
    let failure = result.map_or_else(|failure| failure.to_string(), |()| "nothing".to_owned());
    assert!(failure.contains(what), "found {failure}, and not: {what}");
}

#[test]
fn a_run_without_a_breach_holds() {
    judged(&[], &[], &[]).unwrap();
    let repeat = [
        planted(FAST, 3, What::Started),
        planted(FAST, 4, What::Started),
    ];
    let lines = [&repeat[..], &[planted(FAST, 4, What::Done)]].concat();
    judged(&lines, &[(FAST, Done::Times(1))], &["present-2"]).unwrap();
    finds(
        judged(&lines, &[(FAST, Done::Times(1))], &[]),
        "a repeat without a cause",
    );
}

#[test]
fn a_lost_task_is_found_and_one_that_nobody_sent() {
    finds(judged(&[], &[(FAST, Done::Times(1))], &[]), "is to be");
    finds(
        judged(&[planted(FAST, 3, What::Started)], &[], &[]),
        "nobody sent it",
    );
}

#[test]
fn an_early_start_is_found() {
    let mut early = planted(FAST, 3, What::Started);
    early.at = 99;
    let lines = [early, planted(FAST, 3, What::Done)];
    finds(judged(&lines, &[(FAST, Done::Times(1))], &[]), "early");
}

#[test]
fn a_task_that_runs_twice_is_found() {
    let lines =
        [3, 4].map(|fence| [What::Started, What::Done].map(|what| planted(FAST, fence, what)));
    let lines = lines.concat();
    finds(
        judged(&lines, &[(FAST, Done::Times(1))], &[]),
        "done, and started again",
    );
    let once = lines.iter().cloned().map(|line| Line {
        kind: ONCE.to_owned(),
        ..line
    });
    let once: Vec<_> = once.collect();
    finds(
        judged(&once, &[(ONCE, Done::Times(1))], &[]),
        "at most once",
    );
}

#[test]
fn a_kill_may_cut_off_a_task_that_may_start_only_once() {
    let started = [planted(ONCE, 3, What::Started)];
    for lines in [&started[..], &[]] {
        judged(lines, &[(ONCE, Done::Times(1))], &["present-2"]).unwrap();
        finds(judged(lines, &[(ONCE, Done::Times(1))], &[]), "is to be");
    }
    finds(
        judged(&[], &[(FAST, Done::Times(1))], &["present-2"]),
        "is to be",
    );
    let late = |at| Line {
        at,
        ..line("present-2", FAST, "a", 1, What::Done)
    };
    finds(
        judged(&[late(500)], &[(ONCE, Done::Times(1))], &["present-2"]),
        "is to be",
    );
}

#[test]
fn a_cancelled_task_that_runs_and_a_fence_that_shrinks_are_found() {
    let lines = [
        planted(FAST, 3, What::Started),
        planted(FAST, 3, What::Failed),
    ];
    finds(judged(&lines, &[(FAST, Done::Times(0))], &[]), "is to be");
    let lines = [
        lines.clone(),
        [2, 2].map(|fence| planted(FAST, fence, What::Started)),
    ]
    .concat();
    finds(
        judged(&lines, &[(FAST, Done::Times(1))], &[]),
        "a fence did not grow",
    );
}
