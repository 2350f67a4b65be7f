//! The acts: the earlier release alone, both, the present one alone, and the way back.

use delayq_beside::{
    ALL, Command, FAST, FORMER, HELD, HOT, Known, Line, ONCE, RETRIED, TICK, What,
};

use crate::failure::{Result, ensure};
use crate::instance::{Instance, at};
use crate::judge::judge;
use crate::ledger::Done;
use crate::operate::{LATER, is_changed, is_listed_dead, operate};
use crate::scene::{Release, Scene, until};

/// Types whose tasks are left for the other release.
const LEFT: [&str; 5] = [FAST, FORMER, RETRIED, HOT, ONCE];
/// Most rounds until both releases have run a task of the other one.
const ROUNDS: usize = 50;

/// Plays all acts, and judges them.
pub(crate) fn play(scene: &mut Scene) -> Result<()> {
    let mut earlier = scene.start(Release::Earlier)?;
    scene.say("the earlier release alone");
    work(scene, &mut earlier)?;
    drained(&mut earlier)?;
    let left = leave(scene, &mut earlier)?;
    earlier.ask(&Command::Pause(FORMER.to_owned()))?;
    let waiting = scene.send(&mut earlier, FORMER, "paused", 0)?;

    scene.say("the present release joins while the earlier one works");
    work(scene, &mut earlier)?;
    let mut present = scene.start(Release::Present)?;
    both_are_listed(&mut earlier, &mut present)?;
    let stats = present.ask(&Command::Stats(FORMER.to_owned()))?;
    ensure(!at(&stats, "/paused_until").is_null(), || {
        format!("not paused: {stats}")
    })?;
    present.ask(&Command::Resume(FORMER.to_owned()))?;
    scene.line("the end", (FORMER, &waiting), |line| {
        line.what == What::Done
    })?;
    share(scene, &mut earlier, &mut present)?;
    operate(scene, &mut earlier, &mut present)?;
    operate(scene, &mut present, &mut earlier)?;
    for by in [&mut earlier, &mut present] {
        is_sound(by)?;
    }

    scene.say("the earlier release is killed; the present one takes over");
    take_over(scene, earlier, &mut present)?;
    run_what_was_left(scene, &mut present, &left)?;
    work(scene, &mut present)?;
    drained(&mut present)?;
    let left = leave(scene, &mut present)?;
    let dead = scene.send(&mut present, RETRIED, "die", 0)?;
    scene.is_done(RETRIED, &dead, Done::StartedInVain)?;
    is_listed_dead(&mut present, &dead)?;

    scene.say("rollback: the earlier release is back; the present one is killed");
    work(scene, &mut present)?;
    let mut earlier = scene.start(Release::Earlier)?;
    share(scene, &mut earlier, &mut present)?;
    take_over(scene, present, &mut earlier)?;
    run_what_was_left(scene, &mut earlier, &left)?;
    dies_again(scene, &mut earlier, &dead)?;
    work(scene, &mut earlier)?;
    drained(&mut earlier)?;
    is_sound(&mut earlier)?;

    scene.say("forward once more");
    let mut present = scene.start(Release::Present)?;
    work(scene, &mut present)?;
    let found = present.ask(&Command::Find(RETRIED.to_owned(), dead))?;
    let history = at(&found, "/history");
    let is_whole = at(history, "/requeues") == 1 && at(history, "/last_error") == "asked to die";
    ensure(is_whole, || format!("dead in both releases: {found}"))?;
    for (kind, id) in &left {
        begins_anew(scene, &mut present, kind, id)?;
    }
    shows_holders(scene, &mut earlier, &mut present)?;
    finish(scene, earlier, present)
}

/// Sends tasks of each type, some of them for a little later.
fn work(scene: &mut Scene, by: &mut Instance) -> Result<()> {
    for round in 0..20 {
        for kind in [FAST, FORMER, HOT, ONCE] {
            scene.send(by, kind, "plain", round * 25)?;
        }
        scene.send(by, RETRIED, "fail", round * 25)?;
    }
    let failed = scene.send(by, ONCE, "fail", 0)?;
    scene.is_done(ONCE, &failed, Done::StartedOnce)?;
    let follower = format!("follower-of-{}", by.name);
    let parent = scene.send(
        by,
        FAST,
        &format!("then {follower}-{}", scene.ledger.len()),
        0,
    )?;
    let message = scene.expect(FAST, &parent)?.message.clone();
    let mut expected = scene.expect(FAST, &parent)?.clone();
    "followed".clone_into(&mut expected.message);
    let id = message.trim_start_matches("then ").to_owned();
    scene.ledger.insert((FAST.to_owned(), id), expected);
    Ok(())
}

/// Tasks that the other release is to find: for later, and dead.
fn leave(scene: &mut Scene, by: &mut Instance) -> Result<Vec<(&'static str, String)>> {
    let mut left = Vec::new();
    for kind in LEFT {
        for _ in 0..3 {
            left.push((kind, scene.send(by, kind, "left", LATER)?));
        }
    }
    // `operate` discards the dead of RETRIED, so this one dies of a type of its own.
    let dead = scene.send(by, HELD, "die", 0)?;
    scene.line("the failure", (HELD, &dead), |line| {
        line.what == What::Failed
    })?;
    left.push((HELD, dead));
    Ok(left)
}

/// Runs all of that, alone.
fn run_what_was_left(
    scene: &mut Scene,
    by: &mut Instance,
    left: &[(&'static str, String)],
) -> Result<()> {
    by.ask(&Command::Mood {
        holds: true,
        dies: false,
    })?;
    for (kind, id) in left {
        let kind = *kind;
        let found = by.ask(&Command::Find(kind.to_owned(), id.clone()))?;
        if kind == HELD {
            ensure(at(&found, "/state") == "dead", || format!("found {found}"))?;
            let ids = by.ask(&Command::Requeue(kind.to_owned()))?;
            ensure(ids.to_string().contains(id), || {
                format!("{id}: requeued {ids}")
            })?;
            scene.line("the end", (kind, id), |line| line.what == What::Done)?;
        } else {
            ensure(at(&found, "/message") == "left", || {
                format!("found {found}")
            })?;
            scene.may_start_now(kind, id)?;
            is_changed(&by.ask(&Command::RunNow(kind.to_owned(), id.clone()))?)?;
        }
    }
    by.ask(&Command::Mood {
        holds: true,
        dies: true,
    })?;
    Ok(())
}

/// Both send and both serve, until each has run a task of the other one.
fn share(scene: &mut Scene, earlier: &mut Instance, present: &mut Instance) -> Result<()> {
    for _ in 0..ROUNDS {
        let mut sent = Vec::new();
        for kind in [FAST, HOT, ONCE, RETRIED] {
            for by in [&mut *earlier, &mut *present] {
                sent.push((kind, scene.send(by, kind, "shared", 50)?));
            }
        }
        for (kind, id) in &sent {
            scene.line("the end", (kind, id), |line| line.what == What::Done)?;
        }
        let lines = scene.lines()?;
        let has_crossed = |to: &str, from: &str| {
            let mut starts = lines.iter().filter(|line| line.instance == to);
            starts.any(|line| line.id.starts_with(&format!("{from}-")))
        };
        if has_crossed(&earlier.name, &present.name) && has_crossed(&present.name, &earlier.name) {
            return Ok(());
        }
    }
    Err(format!("in {ROUNDS} rounds one release ran nothing of the other one").into())
}

/// Kills `victim` while it holds tasks; `heir` gets them, but for the one that may start only once.
fn take_over(scene: &mut Scene, mut victim: Instance, heir: &mut Instance) -> Result<()> {
    let mut held = None;
    let mut once = None;
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        for kind in [HELD, ONCE] {
            let id = scene.send(&mut victim, kind, "hold", 0)?;
            let start = scene.line("the start", (kind, &id), |line| line.what == What::Started)?;
            if start.instance == victim.name {
                let place = if kind == HELD { &mut held } else { &mut once };
                *place = Some(id.clone());
                if kind == ONCE {
                    scene.is_done(ONCE, &id, Done::StartedOnce)?;
                }
            }
            all.push((kind, id));
        }
        if held.is_some() && once.is_some() {
            break;
        }
    }
    let (Some(held), Some(_)) = (held, once) else {
        return Err(format!("{} got none of {} tasks", victim.name, all.len()).into());
    };
    scene.kill(victim)?;
    let is_heirs = |line: &Line| line.instance == heir.name;
    let start = scene.line("the takeover", (HELD, &held), is_heirs)?;
    ensure(start.attempt == 2, || format!("the takeover is {start:?}"))?;
    let found = heir.ask(&Command::Find(HELD.to_owned(), held))?;
    let is_running = at(&found, "/state") == "running" && at(&found, "/attempt") == 2;
    ensure(
        is_running && at(&found, "/history/lock_expiries") == 1,
        || format!("found {found}"),
    )?;
    heir.ask(&Command::Mood {
        holds: false,
        dies: true,
    })?;
    for (kind, id) in all {
        let lasts = scene.expect(kind, &id)?.done != Done::StartedOnce;
        if lasts {
            scene.line("the end", (kind, &id), |line| line.what == What::Done)?;
        }
    }
    heir.ask(&Command::Mood {
        holds: true,
        dies: true,
    })?;
    Ok(())
}

fn both_are_listed(earlier: &mut Instance, present: &mut Instance) -> Result<()> {
    for by in [earlier, present] {
        until(&format!("two instances on the list of {}", by.name), || {
            let count = by.ask(&Command::Instances)?;
            Ok((count == 2).then_some(()))
        })?;
        let recurring = by.ask(&Command::Recurring)?;
        let count = recurring.as_array().map_or(0, Vec::len);
        ensure(count == 1, || format!("{} recurs {recurring}", by.name))?;
    }
    Ok(())
}

/// A dead task of the other release is requeued, and dies once more.
fn dies_again(scene: &Scene, by: &mut Instance, id: &str) -> Result<()> {
    let ids = by.ask(&Command::Requeue(RETRIED.to_owned()))?;
    ensure(ids.to_string().contains(id), || {
        format!("{id}: requeued {ids}")
    })?;
    let is_again = |line: &Line| line.what == What::Failed && line.instance == by.name;
    scene.line("the second failure", (RETRIED, id), is_again)?;
    is_listed_dead(by, id)
}

/// A new task takes the id of one that this release began and the earlier one ended: it shows
/// nothing of that one.
fn begins_anew(scene: &mut Scene, present: &mut Instance, kind: &str, id: &str) -> Result<()> {
    if kind == ONCE {
        return Ok(());
    }
    "anew".clone_into(&mut scene.expect(kind, id)?.message);
    scene.is_done(kind, id, Done::Times(2))?;
    let receipt = present.ask(&Command::Send {
        kind: kind.to_owned(),
        id: id.to_owned(),
        message: "anew".to_owned(),
        after_ms: LATER,
        known: Known::Refuse,
        group: String::new(),
    })?;
    ensure(at(&receipt, "/outcome") == "accepted", || {
        format!("{id}: {receipt}")
    })?;
    let found = present.ask(&Command::Find(kind.to_owned(), id.to_owned()))?;
    let is_new = at(&found, "/attempt") == 0 && at(&found, "/history/last_error").is_null();
    let is_clean = at(&found, "/errors").as_array().is_some_and(Vec::is_empty);
    ensure(
        is_new && is_clean && at(&found, "/holder").is_null(),
        || format!("a new task is {found}"),
    )?;
    is_changed(&present.ask(&Command::RunNow(kind.to_owned(), id.to_owned()))?)
}

/// This release names the holder of a lock that it has taken itself, and none for a lock of the
/// earlier one, whoever held the task before.
fn shows_holders(scene: &mut Scene, earlier: &mut Instance, present: &mut Instance) -> Result<()> {
    for _ in 0..ROUNDS {
        let id = scene.send(present, HELD, "hold", 0)?;
        let is_start = |line: &Line| line.what == What::Started;
        let start = scene.line("the start", (HELD, &id), is_start)?;
        let found = present.ask(&Command::Find(HELD.to_owned(), id))?;
        let is_named = start.instance == present.name;
        ensure(at(&found, "/holder").is_string() == is_named, || {
            format!("{} holds {found}", start.instance)
        })?;
        if !is_named {
            break;
        }
    }
    for by in [earlier, present] {
        by.ask(&Command::Mood {
            holds: false,
            dies: true,
        })?;
    }
    Ok(())
}

/// This release shows why a task failed that was settled before it started, if it started it.
fn shows_failures(scene: &Scene, present: &mut Instance) -> Result<()> {
    let lines = scene.lines()?;
    let failed = lines
        .iter()
        .filter(|line| line.kind == ONCE && line.what == What::Failed);
    for line in failed.filter(|line| line.instance.starts_with("present")) {
        let found = present.ask(&Command::Find(ONCE.to_owned(), line.id.clone()))?;
        let error = at(&found, "/history/last_error").as_str();
        ensure(error == Some("asked to fail"), || {
            format!("{line:?} is shown as {found}")
        })?;
    }
    Ok(())
}

/// Awaits that nothing is due or runs, apart from what recurs.
fn drained(by: &mut Instance) -> Result<()> {
    for kind in ALL.into_iter().filter(|kind| *kind != TICK) {
        until(&format!("the last task of {kind}"), || {
            let stats = by.ask(&Command::Stats(kind.to_owned()))?;
            let is_left = |field: &str| at(&stats, &format!("/{field}")).as_u64() != Some(0);
            let soon = at(&stats, "/now").as_i64().map(|now| now + 60_000);
            let is_scheduled = at(&stats, "/next_due")
                .as_i64()
                .is_some_and(|due| Some(due) < soon);
            Ok((!is_left("running") && !is_left("due") && !is_scheduled).then_some(()))
        })?;
    }
    Ok(())
}

/// An audit of each type finds nothing.
fn is_sound(by: &mut Instance) -> Result<()> {
    for kind in ALL {
        let problems = by.ask(&Command::Audit(kind.to_owned()))?;
        let is_sound = problems.as_array().is_some_and(Vec::is_empty);
        ensure(is_sound, || {
            format!("an audit of {kind} by {}: {problems}", by.name)
        })?;
    }
    Ok(())
}

/// Both agree, and what this release shows of the other one's work is whole.
fn finish(scene: &mut Scene, mut earlier: Instance, mut present: Instance) -> Result<()> {
    let dead = scene.send(&mut earlier, RETRIED, "die", 0)?;
    scene.is_done(RETRIED, &dead, Done::StartedInVain)?;
    is_listed_dead(&mut present, &dead)?;
    drained(&mut present)?;
    for kind in ALL.into_iter().filter(|kind| *kind != TICK) {
        let mut counts = Vec::new();
        for by in [&mut earlier, &mut present] {
            let stats = by.ask(&Command::Stats(kind.to_owned()))?;
            counts.push(
                ["scheduled", "running", "dead"]
                    .map(|field| at(&stats, &format!("/{field}")).clone()),
            );
        }
        ensure(
            counts.windows(2).all(|pair| pair.first() == pair.last()),
            || format!("{kind}: the releases count {counts:?}"),
        )?;
        for state in ["scheduled", "dead", "done", "cancelled"] {
            present.ask(&Command::List(kind.to_owned(), state.to_owned()))?;
        }
    }
    shows_failures(scene, &mut present)?;
    for (kind, id) in scene.ledger.keys() {
        for by in [&mut earlier, &mut present] {
            by.ask(&Command::Find(kind.clone(), id.clone()))?;
        }
    }
    for by in [&mut earlier, &mut present] {
        is_sound(by)?;
    }
    earlier.stop()?;
    is_sound(&mut present)?;
    present.stop()?;
    judge(scene)
}
