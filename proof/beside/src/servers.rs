//! The servers of two releases, swapped one by one under load, and what the clients saw.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::failure::{Result, ensure};
use crate::fleet::Fleet;
use crate::load::{Entry, LOCK_MS, Load, Seen};
use crate::scene::{Release, until};

/// How long the load goes on after each swap.
const ACT: Duration = Duration::from_secs(3);

/// The swaps: a place, the release that comes there, and how the one before is ended.
const SWAPS: [(usize, Release, &str); 8] = [
    (0, Release::Present, "TERM"),
    (1, Release::Present, "TERM"),
    (0, Release::Earlier, "TERM"),
    (1, Release::Earlier, "TERM"),
    (0, Release::Present, "KILL"),
    (1, Release::Earlier, "KILL"),
    (1, Release::Present, "TERM"),
    (0, Release::Present, "TERM"),
];

/// Plays all swaps, and judges them.
pub(crate) fn play(url: &str, folder: &Path, programs: [&PathBuf; 2]) -> Result<()> {
    let mut fleet = Fleet::start(url, folder, programs)?;
    let mut load = Load::start(&fleet.places);
    thread::park_timeout(ACT);
    for (place, release, signal) in SWAPS {
        println!("  {signal} for the server in {place}, then the {release:?} release there");
        fleet.swap(place, release, signal)?;
        // Not a guess at how long something takes: the load of this act.
        thread::park_timeout(ACT);
    }
    load.send_no_more();
    let drained = until("the end of every task", || {
        let lives = lives(&load.entries());
        let is_done =
            |life: &Vec<Entry>| life.iter().any(|one| matches!(one.seen, Seen::Done { .. }));
        let are_done = lives.values().all(is_done);
        Ok(are_done.then_some(()))
    });
    let judged = judge(&load.end());
    judged.and(drained)
}

/// What was seen of each task, by time.
fn lives(entries: &[Entry]) -> BTreeMap<String, Vec<Entry>> {
    let mut lives: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        lives
            .entry(entry.id.clone())
            .or_default()
            .push(entry.clone());
    }
    lives
}

/// Judges what the clients saw.
fn judge(entries: &[Entry]) -> Result<()> {
    let lives = lives(entries);
    let mut crossed = [0_usize; 2];
    let (mut failures, mut repeats) = (0, 0);
    for (id, life) in &lives {
        let shown = || format!("{id}: {life:#?}");
        judge_one(life).map_err(|reason| format!("{reason}: {}", shown()))?;
        let sender = life.iter().find_map(|one| match one.seen {
            Seen::Accepted { by, .. } => Some(by),
            _ => None,
        });
        let starters = life.iter().filter_map(|one| match one.seen {
            Seen::Started { by, .. } => Some(by),
            _ => None,
        });
        for by in starters.filter(|by| Some(*by) != sender) {
            match by {
                Release::Earlier => crossed[0] += 1,
                Release::Present => crossed[1] += 1,
            }
        }
        let count = |is: fn(&Seen) -> bool| life.iter().filter(|one| is(&one.seen)).count();
        failures += count(|seen| matches!(seen, Seen::Failed { .. }));
        repeats += count(|seen| matches!(seen, Seen::Lost { .. }));
    }
    println!(
        "  {} tasks, {failures} failed once, {repeats} locks lost; of tasks of the other release: \
         {} handed out by the earlier one, {} by this one",
        lives.len(),
        crossed[0],
        crossed[1]
    );
    let has_all = lives.len() > 500 && failures > 50 && crossed.iter().all(|count| *count > 20);
    ensure(has_all, || "too little was seen".to_owned())
}

/// Judges one task: accepted, never early, and done once.
fn judge_one(life: &[Entry]) -> std::result::Result<(), &'static str> {
    let mut not_before = None;
    let (mut done, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let mut starts: Vec<(i64, i64)> = Vec::new();
    for entry in life {
        match entry.seen {
            Seen::Accepted { not_before: at, .. } => not_before = Some(at),
            Seen::Started { fence, due, .. } => {
                if entry.at < due {
                    return Err("started early");
                }
                let grows = starts.last().is_none_or(|(last, _)| *last < fence);
                if !grows {
                    return Err("a fence did not grow");
                }
                starts.push((fence, entry.at));
            }
            Seen::Failed { fence } => drop(ended.insert(fence)),
            Seen::Done { fence } => drop((ended.insert(fence), done.insert(fence))),
            Seen::Lost { .. } => {}
        }
    }
    let not_before = not_before.ok_or("it was not accepted, and ran")?;
    if done.len() != 1 {
        return Err("it was not done once");
    }
    if starts.first().is_some_and(|(_, at)| *at < not_before) {
        return Err("started before its delay was over");
    }
    for pair in starts.windows(2) {
        let [(fence, at), (_, next)] = pair else {
            continue;
        };
        // Started again without an end: only once its lock was over.
        if !ended.contains(fence) && next - at < LOCK_MS - 100 {
            return Err("started twice");
        }
    }
    let last = starts.last().map(|(fence, _)| fence);
    if last.is_some_and(|last| !done.contains(last)) {
        return Err("done, and started again");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(seen: &[(i64, Seen)]) -> Vec<Entry> {
        let entry = |(at, seen): &(i64, Seen)| Entry {
            id: "a".to_owned(),
            at: *at,
            seen: seen.clone(),
        };
        seen.iter().map(entry).collect()
    }

    #[test]
    fn a_task_that_is_lost_early_or_twice_is_found() {
        let by = Release::Earlier;
        let accepted = (0, Seen::Accepted { not_before: 5, by });
        let start = |at, fence, due| (at, Seen::Started { fence, due, by });
        let done = |fence| (20, Seen::Done { fence });
        let good = [accepted.clone(), start(10, 1, 5), done(1)];
        judge_one(&life(&good)).unwrap();
        let again = LOCK_MS + 10;
        let taken_over = [
            accepted.clone(),
            start(10, 1, 5),
            start(again, 2, 5),
            done(2),
        ];
        judge_one(&life(&taken_over)).unwrap();
        for (bad, why) in [
            (vec![accepted.clone()], "not done once"),
            (vec![accepted.clone(), start(10, 1, 5)], "not done once"),
            (good[1..].to_vec(), "not accepted"),
            (vec![accepted.clone(), start(4, 1, 5), done(1)], "early"),
            (
                vec![accepted.clone(), start(4, 1, 3), done(1)],
                "before its delay",
            ),
            (
                vec![accepted.clone(), start(10, 1, 5), start(11, 2, 5), done(2)],
                "started twice",
            ),
            (
                vec![accepted.clone(), start(10, 1, 5), done(1), start(30, 2, 5)],
                "started again",
            ),
            (
                vec![
                    accepted.clone(),
                    start(10, 1, 5),
                    done(1),
                    start(30, 2, 5),
                    done(2),
                ],
                "not done once",
            ),
            (
                vec![
                    accepted.clone(),
                    start(10, 2, 5),
                    start(again, 1, 5),
                    done(1),
                ],
                "did not grow",
            ),
        ] {
            let found = judge_one(&life(&bad)).unwrap_err();
            assert!(found.contains(why), "{why}: {found}");
        }
    }
}
