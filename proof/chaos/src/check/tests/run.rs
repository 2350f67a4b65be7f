//! Runs that prove nothing, and files.

use super::scene::{LOCK, Scene};
use crate::check::{Outcome, Promise, check};
use crate::event::{Event, Explains, Phase, Target, What};
use crate::history::{History, HistoryBuilder, HistoryError};
use crate::record::Recorder;

/// The verdict of a quiet scene, after `change`.
fn quiet(change: impl FnOnce(&mut Scene)) -> crate::check::Verdict {
    let mut scene = Scene::new();
    change(&mut scene);
    scene.verdict()
}

#[test]
fn a_planned_fault_that_never_fired_makes_the_run_invalid() {
    let verdict = quiet(|scene| scene.plan.kinds = vec!["kill".to_owned()]);
    assert_eq!(verdict.outcome(), Outcome::Invalid, "{verdict}");
    assert_eq!(verdict.invalid, ["the planned fault kill never fired"]);
    let verdict = quiet(|scene| {
        scene.plan.kinds = vec!["kill".to_owned()];
        scene.kill(100, "w2");
    });
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

#[test]
fn kills_that_never_cost_a_lock_make_the_run_invalid() {
    let verdict = quiet(|scene| {
        scene.plan.expects_repeats = true;
        scene.kill(100, "w2");
    });
    assert_eq!(verdict.outcome(), Outcome::Invalid, "{verdict}");
    let verdict = quiet(|scene| {
        scene.plan.expects_repeats = true;
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.kill(12, "w1");
        scene.works(11 + LOCK, "w2", "a", (3, 2));
        scene.done(20 + LOCK, "w2", "a", 3);
    });
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

#[test]
fn a_fault_without_an_end_makes_the_run_invalid() {
    let verdict = quiet(|scene| {
        let fault = What::Fault {
            id: 1,
            kind: "kill".to_owned(),
            target: Target::Process("w1".to_owned()),
            phase: Phase::Begun,
            explains: vec![Explains::LostLock],
        };
        scene.at(10, "driver", fault);
    });
    assert_eq!(verdict.outcome(), Outcome::Invalid, "{verdict}");
}

/// Each attempt that ended well has an effect in the effect log, and whoever was not killed has an
/// end.
#[test]
fn a_record_that_is_not_whole_proves_nothing() {
    let told = |sunk: bool, down: &[&str]| {
        quiet(|scene| {
            scene.plan.effect_log = true;
            if sunk {
                let task = "mail/bystander".to_owned();
                scene.at(7, "effects", What::EffectAccepted { task, fence: 1 });
            }
            for process in down {
                scene.at(50, process, What::Down);
            }
        })
    };
    let verdict = told(true, &["driver", "s", "w1", "w2"]);
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
    let verdict = told(false, &["driver", "s", "w1", "w2"]);
    let missing =
        "the effect log knows nothing of 1 attempts that ended well: the record is not whole";
    assert_eq!(verdict.invalid, [missing]);
    let verdict = told(true, &["driver", "s", "w2"]);
    let cut = "w1 did not end in order: its record may not be whole";
    assert_eq!(verdict.invalid, [cut]);
}

#[test]
fn an_empty_record_proves_nothing() {
    let verdict = check(&HistoryBuilder::default().finish());
    assert_eq!(verdict.outcome(), Outcome::Invalid);
    assert_eq!(verdict.invalid.len(), 4, "{verdict}");
}

#[test]
fn a_broken_promise_is_named_with_its_history_even_in_an_invalid_run() {
    let verdict = quiet(|scene| {
        scene.plan.kinds = vec!["kill".to_owned()];
        scene.submit(10, "a", 0);
    });
    assert_eq!(verdict.outcome(), Outcome::Broken);
    assert!(verdict.breaks(Promise::NeverLost));
    let text = verdict.to_string();
    for part in [
        "I2 never lost            BROKEN (lost before it started: 1)",
        "mail/a: accepted, never claimed",
        "s.1  Submit {",
        "not in the store",
        "INVALID: the planned fault kill never fired",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn of_many_violations_those_with_the_shortest_histories_are_shown() {
    let verdict = quiet(|scene| {
        for (id, extensions) in [("a", 9), ("b", 8), ("c", 0), ("d", 1), ("e", 2)] {
            scene.submit(10, id, 0);
            scene.works(11, "w1", id, (2, 1));
            for ms in 0..extensions {
                scene.extend(20 + ms, "w1", id, 2);
            }
        }
    });
    let shown: Vec<_> = verdict
        .violations
        .iter()
        .map(|v| v.task.as_deref())
        .collect();
    assert_eq!(shown, [Some("mail/c"), Some("mail/d"), Some("mail/e")]);
    assert_eq!(verdict.broken.values().sum::<u64>(), 5);
}

#[test]
fn what_a_recorder_wrote_is_read_again_up_to_a_line_that_was_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::open(folder.path(), "w1", 3, "shop").unwrap();
    recorder.record(What::EffectAccepted {
        task: "mail/a".to_owned(),
        fence: 7,
    });
    let path = folder.path().join("w1.3.jsonl");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"at_ns\":5,\"wh");
    std::fs::write(&path, &bytes).unwrap();
    let history = History::read(folder.path()).unwrap();
    assert_eq!(history.tasks, ["mail/a"]);
    assert_eq!(history.rows_of(0).len(), 1);
    let process = history.process_of(&history.rows_of(0)[0]).unwrap();
    assert_eq!((process.name.as_str(), process.incarnation), ("w1", 3));
    assert_eq!(process.namespace, "shop");
    assert!(!history.clock.is_empty());
}

#[test]
fn a_line_that_is_no_event_is_named() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        History::read(folder.path()),
        Err(HistoryError::Empty(_))
    ));
    std::fs::write(
        folder.path().join("w1.1.jsonl"),
        "{\"at_ns\":1,\"what\":\"down\"}\nx\n",
    )
    .unwrap();
    let error = History::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("w1.1.jsonl:2: "), "{error}");
}

#[test]
fn events_keep_their_written_form() {
    let event = Event {
        at_ns: 1,
        what: What::EffectBegun {
            task: "mail/a".to_owned(),
            fence: 2,
            others: 0,
        },
    };
    let text = r#"{"at_ns":1,"what":{"effect_begun":{"task":"mail/a","fence":2,"others":0}}}"#;
    assert_eq!(serde_json::to_string(&event).unwrap(), text);
    assert_eq!(serde_json::from_str::<Event>(text).unwrap(), event);
}
