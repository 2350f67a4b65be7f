//! Names of tubes, lanes and jobs; what has happened to a job.

use delayq_plugin::store::MAX_NOTE_BYTES;
use delayq_plugin::{AttemptHistory, TaskId};

use super::super::job::{BURIED, PAST, Past};
use super::super::tube::{Lane, TubeName, id_of, number_of, tube_of, tube_part};

#[test]
fn every_name_of_a_tube_is_part_of_a_type_and_is_read_again() {
    for name in ["default", "a+b/c;d.e$f_g(h)i-j", "+", "A", "a-", "$$$"] {
        let tube = TubeName::read(name.as_bytes()).unwrap();
        let part = tube_part(&tube);
        assert_eq!(tube_of(&part), Some(tube.clone()), "{part}");
        for lane in [
            Lane::new(&part, 1_024).unwrap(),
            Lane::of_job(&part, u32::MAX, 17).unwrap(),
        ] {
            assert_eq!(Lane::read(&lane.task_type), Some((part.clone(), lane)));
        }
    }
}

#[test]
fn a_long_name_is_a_hash_that_no_other_tube_has() {
    let long = TubeName::read("$".repeat(200).as_bytes()).unwrap();
    let other = TubeName::read("$".repeat(199).as_bytes()).unwrap();
    let part = tube_part(&long);
    assert_ne!(part, tube_part(&other));
    assert_eq!(tube_of(&part), None);
    let lane = Lane::of_job(&part, u32::MAX, u64::MAX).unwrap();
    assert_eq!(Lane::read(&lane.task_type), Some((part, lane)));
    assert!(TubeName::read(b"").is_none() && TubeName::read(b"-a").is_none());
    assert!(TubeName::read(b"a:b").is_none() && TubeName::read(&[b'a'; 201]).is_none());
}

#[test]
fn numbers_are_ordered_as_ids_and_other_ids_are_no_numbers() {
    let ids = [1, 9, 10, 9_999_999_999_999_999].map(|number| id_of(number).unwrap());
    assert!(ids.is_sorted());
    assert_eq!(number_of(&ids[2]), Some(10));
    assert_eq!(number_of(&id_of(u64::MAX).unwrap()), Some(u64::MAX));
    for other in ["order-42", "42", "00000000000000x1"] {
        assert_eq!(number_of(&TaskId::new(other).unwrap()), None);
    }
}

#[test]
fn what_happened_to_a_job_is_read_from_its_note() {
    let past = Past {
        pri: 7,
        delay: 3,
        releases: 2,
        ..Past::default()
    };
    let mut history = AttemptHistory::default();
    history.note = Some(past.note());
    history.last_error = Some(BURIED.to_owned());
    (history.lock_expiries, history.requeues) = (1, 0);
    let headers = [("ttr".to_owned(), "9".to_owned())].into();
    let read = Past::of(1, &headers, &history);
    assert_eq!(
        (read.pri, read.delay, read.ttr, read.releases),
        (7, 3, 9, 2)
    );
    assert_eq!((read.timeouts, read.reserves), (1, 1));
    let foreign = AttemptHistory::default();
    assert_eq!(Past::of(5, &headers, &foreign).pri, 5);
    // The last word of a job that has moved is in its headers.
    let mut moved = headers.clone();
    moved.insert(PAST.to_owned(), past.after("before"));
    assert_eq!(Past::of(5, &moved, &foreign).releases, 2);
    history.note = Some(read.note());
    assert_eq!(Past::of(5, &moved, &history).timeouts, 1);
}

/// The counts of a job with these counts, as both releases may have kept them.
fn pri_of(note: Option<&Past>, error: Option<&Past>, [failures, requeues]: [u32; 2]) -> u32 {
    let mut history = AttemptHistory::default();
    history.note = note.map(Past::note);
    // An earlier release kept it behind the error, and without failures.
    history.last_error = error.map(|past| {
        let text = past.after("given back by its client");
        let end = text.find(" failures=").unwrap();
        text[..end].to_owned()
    });
    (history.failures, history.requeues) = (failures, requeues);
    Past::of(1, &[].into(), &history).pri
}

#[test]
fn what_an_earlier_release_has_kept_counts_where_it_is_later() {
    let past = |pri, failures, requeues| Past {
        pri,
        requeues,
        failures,
        ..Past::default()
    };
    let (old, new) = (past(7, 0, 0), past(8, 2, 0));
    assert_eq!(pri_of(None, Some(&old), [1, 0]), 7);
    assert_eq!(pri_of(Some(&new), None, [2, 0]), 8);
    assert_eq!(pri_of(Some(&new), None, [9, 0]), 8, "no figures of it");
    assert_eq!(pri_of(Some(&new), Some(&old), [2, 0]), 8);
    assert_eq!(pri_of(Some(&new), Some(&old), [3, 0]), 7);
    // A kick counts failures anew.
    assert_eq!(pri_of(Some(&new), Some(&old), [0, 1]), 8);
    assert_eq!(pri_of(Some(&new), Some(&old), [1, 1]), 7);
}

#[test]
fn the_note_of_a_job_is_kept_whole() {
    let most = Past {
        pri: u32::MAX,
        delay: u32::MAX,
        ttr: u32::MAX,
        reserves: u32::MAX,
        timeouts: u32::MAX,
        releases: u32::MAX,
        buries: u32::MAX,
        kicks: u32::MAX,
        expiries: u32::MAX,
        requeues: u32::MAX,
        failures: u32::MAX,
    };
    assert!(most.note().len() <= MAX_NOTE_BYTES);
}
