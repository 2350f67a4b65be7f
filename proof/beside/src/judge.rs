//! The promises, held against what the workers wrote.

use std::collections::BTreeMap;

use delayq_beside::{Line, ONCE, TICK, What};

use crate::failure::{Result, ensure};
use crate::ledger::Done;
use crate::scene::Scene;

/// The time between the due time of a task that a kill cuts off and the last line of the process.
const KILLED_WITHIN_MS: i64 = 100;

/// What a run was.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    starts: usize,
    /// Starts of tasks that the other release had sent: by the earlier release, by this one.
    crossed: [usize; 2],
    /// Repeats of attempts whose process was killed.
    taken_over: usize,
    /// Repeats of attempts that had lost their locks while they ran.
    locks_lost: usize,
    occurrences: usize,
}

impl Tally {
    fn report(&self) {
        println!(
            "  {} starts; of tasks of the other release: {} by the earlier one, {} by this one; \
             {} taken over from killed processes; {} locks lost; {} occurrences",
            self.starts,
            self.crossed[0],
            self.crossed[1],
            self.taken_over,
            self.locks_lost,
            self.occurrences
        );
    }
}

/// Judges all lines.
pub(crate) fn judge(scene: &Scene) -> Result<()> {
    let lines = scene.lines()?;
    let mut tasks: BTreeMap<(String, String), Vec<&Line>> = BTreeMap::new();
    for line in &lines {
        let key = (line.kind.clone(), line.id.clone());
        tasks.entry(key).or_default().push(line);
    }
    let mut tally = Tally::default();
    for (key, lines) in &tasks {
        judge_starts(scene, key, lines, &mut tally)?;
        ensure(scene.ledger.contains_key(key) || key.0 == TICK, || {
            format!("{key:?} ran, and nobody sent it")
        })?;
    }
    for (key, expected) in &scene.ledger {
        let lines = tasks.get(key).map_or(&[][..], Vec::as_slice);
        let starts = lines.iter().filter(|line| line.what == What::Started);
        let done: Vec<_> = lines
            .iter()
            .filter(|line| line.what == What::Done)
            .collect();
        let repeats = lock_losses(lines) + cut_off(scene, lines);
        let (starts, is_right) = (
            starts.count(),
            match expected.done {
                Done::Times(1) if is_cut_off_once(scene, key, expected.not_before, &tasks) => true,
                Done::Times(times) => {
                    (times..=times + repeats).contains(&done.len())
                        && done.iter().any(|line| line.message == expected.message) == (times > 0)
                }
                Done::StartedOnce => lines.iter().filter(|l| l.what == What::Started).count() == 1,
                Done::StartedInVain => done.is_empty() && !lines.is_empty(),
            },
        );
        let is_silent = expected.done == Done::Times(0) && starts > 0;
        ensure(is_right && !is_silent, || {
            format!("{key:?} is to be {expected:?}, and there is: {lines:#?}")
        })?;
        let first = lines.first().map_or(i64::MAX, |line| line.at);
        ensure(first >= expected.not_before, || {
            format!("{key:?} started early: {expected:?}, {lines:#?}")
        })?;
    }
    tally.report();
    ensure(tally.crossed.iter().all(|crossed| *crossed > 0), || {
        "a release ran nothing of the other one".to_owned()
    })
}

/// Judges the starts of one task: not early, with growing fences, and a repeat only with a cause.
fn judge_starts(
    scene: &Scene,
    key: &(String, String),
    lines: &[&Line],
    tally: &mut Tally,
) -> Result<()> {
    let shown = || format!("{key:?}: {lines:#?}");
    let starts: Vec<_> = lines
        .iter()
        .filter(|line| line.what == What::Started)
        .collect();
    tally.starts += starts.len();
    tally.occurrences += usize::from(key.0 == TICK);
    tally.locks_lost += lock_losses(lines);
    ensure(key.0 != ONCE || starts.len() < 2, || {
        format!("at most once, and started again: {}", shown())
    })?;
    for start in &starts {
        ensure(start.at >= start.due, || format!("early: {}", shown()))?;
        let sender = scene
            .ledger
            .get(key)
            .map(|expected| expected.sender.as_str());
        let is_earlier = |name: &str| name.starts_with("earlier");
        if sender.is_some_and(|sender| is_earlier(sender) != is_earlier(&start.instance)) {
            let by = usize::from(!is_earlier(&start.instance));
            if let Some(crossed) = tally.crossed.get_mut(by) {
                *crossed += 1;
            }
        }
    }
    let runs_again = scene
        .ledger
        .get(key)
        .map_or(1, |expected| match expected.done {
            Done::Times(times) => times,
            _ => 1,
        });
    let mut repeats_of_done = 0;
    for pair in starts.windows(2) {
        let [one, next] = pair else { continue };
        ensure(one.fence < next.fence, || {
            format!("a fence did not grow: {}", shown())
        })?;
        let end = end_of(lines, one);
        let was_killed = scene.killed.contains(&one.instance);
        match end.map(|end| (end.what, end.at > next.at)) {
            None => {
                ensure(was_killed, || {
                    format!("a repeat without a cause: {}", shown())
                })?;
                tally.taken_over += 1;
            }
            Some((What::Done, false)) if !was_killed => repeats_of_done += 1,
            Some(_) => {}
        }
    }
    ensure(repeats_of_done < runs_again.max(1), || {
        format!("done, and started again: {}", shown())
    })
}

/// The line that ends the attempt which `start` began.
fn end_of<'a>(lines: &[&'a Line], start: &Line) -> Option<&'a Line> {
    let mut of_task = lines.iter().copied();
    of_task.find(|line| line.fence == start.fence && line.what != What::Started)
}

/// How many attempts were done by a process that was killed, and followed by another one: a worker
/// writes down its end before the store has it, and a kill in between leads to a repeat.
fn cut_off(scene: &Scene, lines: &[&Line]) -> usize {
    let starts = || lines.iter().filter(|line| line.what == What::Started);
    let is_cut_off = |start: &&&Line| {
        scene.killed.contains(&start.instance)
            && end_of(lines, start).is_some_and(|end| end.what == What::Done)
            && starts().any(|next| next.fence > start.fence)
    };
    starts().filter(is_cut_off).count()
}

/// True for a task of the type that may start only once, if a kill has cut it off: before its
/// worker wrote down the end, or, at the time when it became due, the start.
fn is_cut_off_once(
    scene: &Scene,
    key: &(String, String),
    due: i64,
    tasks: &BTreeMap<(String, String), Vec<&Line>>,
) -> bool {
    let own = tasks.get(key).map_or(&[][..], Vec::as_slice);
    if key.0 != ONCE || own.iter().any(|line| line.what != What::Started) {
        return false;
    }
    let last_of = |name: &String| {
        let all = tasks.values().flatten();
        let at = all
            .filter(|line| line.instance == *name)
            .map(|line| line.at);
        at.max().unwrap_or(i64::MIN)
    };
    let is_at_a_kill =
        |last: i64| (last - KILLED_WITHIN_MS..=last + KILLED_WITHIN_MS).contains(&due);
    let has_started = own.iter().any(|line| scene.killed.contains(&line.instance));
    has_started || own.is_empty() && scene.killed.iter().map(last_of).any(is_at_a_kill)
}

/// How many attempts were done only after the next one had started.
fn lock_losses(lines: &[&Line]) -> usize {
    let starts: Vec<_> = lines
        .iter()
        .filter(|line| line.what == What::Started)
        .collect();
    let pairs = starts.windows(2).filter(|pair| match pair {
        [one, next] => {
            end_of(lines, one).is_some_and(|end| end.what == What::Done && end.at > next.at)
        }
        _ => false,
    });
    pairs.count()
}

#[cfg(test)]
mod tests;
