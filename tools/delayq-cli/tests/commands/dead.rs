//! Dead tasks: in groups, requeued at a rate, discarded.

use std::time::{Duration, Instant};

use crate::stage::Stage;

fn dead_tasks(stage: &Stage) {
    stage.kill(&["no van 7", "no van 12", "no driver", "no van 3", "no van 9"]);
    let json = |code, words: &[&str]| stage.json(code, words);
    let groups = json(0, &["dead", "groups"]);
    let found = |nth: usize| {
        (
            groups["groups"][nth]["count"].as_u64(),
            &groups["groups"][nth]["error"],
        )
    };
    assert_eq!(found(0), (Some(4), &"no van #".into()));
    assert_eq!(found(1), (Some(1), &"no driver".into()));
    let listed = json(
        0,
        &[
            "dead",
            "list",
            "mail.send",
            "--error",
            "van",
            "--limit",
            "3",
        ],
    );
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 3);
    json(2, &["dead", "requeue", "mail.send"]);
    // The variable of a shell that is not set.
    for verb in ["requeue", "discard"] {
        for condition in ["--error", "--prefix", "--group"] {
            let words = ["dead", verb, "mail.send", condition, "", "--yes"];
            json(2, &words);
        }
    }
    json(
        2,
        &["dead", "requeue", "mail.send", "d-1", "--error", "van"],
    );
    let vans = ["dead", "requeue", "mail.send", "--error", "van"];
    let dry = json(0, &[&vans[..], &["--dry-run"]].concat());
    assert_eq!((&dry["matched"], &dry["changed"]), (&4.into(), &0.into()));
    json(1, &vans);

    // Two a second: the second two are taken a second after the first two.
    let begin = Instant::now();
    let done = json(0, &[&vans[..], &["--rate", "2/s", "--yes"]].concat());
    assert_eq!(done["changed"], 4);
    assert!(begin.elapsed() >= Duration::from_secs(1));
    let tasks = json(0, &["list", "mail.send"]);
    let due = |nth: usize| tasks["tasks"][nth]["at"].as_i64().unwrap();
    for pair in [0, 1, 2] {
        let gap = due(pair + 1) - due(pair);
        assert!(
            (450..3_000).contains(&gap),
            "{gap} ms between {pair} and the next: {tasks}"
        );
    }

    assert_eq!(
        json(0, &["dead", "discard", "mail.send", "d-2"])["changed"],
        1
    );
    json(1, &["dead", "discard", "mail.send", "--all", "--yes"]);
    let expected = [
        "requeue error contains \"van\" begun",
        "requeue error contains \"van\" done",
        "discard d-2 done",
    ];
    assert_eq!(stage.log(), expected);
}

#[test]
fn dead_tasks_are_grouped_and_requeued_at_a_rate_on_sqlite() {
    dead_tasks(&Stage::sqlite());
}

#[test]
fn dead_tasks_are_grouped_and_requeued_at_a_rate_on_redis() {
    dead_tasks(&Stage::redis());
}
