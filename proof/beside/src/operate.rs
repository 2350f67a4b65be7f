//! Each operation of one release, on tasks that the other one has sent.

use delayq_beside::{Command, FAST, FORMER, HELD, HOT, Known, Line, RETRIED, What};

use crate::failure::{Result, ensure};
use crate::instance::{Instance, at};
use crate::ledger::Done;
use crate::scene::{Scene, until};

/// So late that a task waits for whatever is done to it, ms.
pub(crate) const LATER: u64 = 3_600_000;

/// Has `maker` send tasks, and `other` change them.
pub(crate) fn operate(scene: &mut Scene, maker: &mut Instance, other: &mut Instance) -> Result<()> {
    scene.say(&format!("{} changes what {} sends", other.name, maker.name));
    for kind in [FAST, HOT] {
        cancel(scene, kind, maker, other)?;
        change(scene, kind, maker, other)?;
        send_again(scene, kind, maker, other)?;
        groups(scene, kind, maker, other)?;
    }
    dead(scene, maker, other)?;
    running(scene, maker, other)?;
    pause(scene, maker, other)?;
    bound(scene, maker, other)
}

fn key(kind: &str, id: &str) -> (String, String) {
    (kind.to_owned(), id.to_owned())
}

fn find(by: &mut Instance, kind: &str, id: &str) -> Result<serde_json::Value> {
    let (kind, id) = key(kind, id);
    by.ask(&Command::Find(kind, id))
}

fn cancel(scene: &mut Scene, kind: &str, maker: &mut Instance, other: &mut Instance) -> Result<()> {
    let id = scene.send_in_group(maker, (kind, "of-the-maker"), "never", LATER)?;
    let found = find(other, kind, &id)?;
    let is_whole = at(&found, "/state") == "scheduled" && at(&found, "/message") == "never";
    let has_group = at(&found, "/headers").to_string().contains("of-the-maker");
    ensure(is_whole && has_group, || format!("found {found}"))?;
    scene.is_done(kind, &id, Done::Times(0))?;
    let answer = other.ask(&Command::Cancel(kind.to_owned(), id.clone()))?;
    ensure(answer == "Cancelled", || format!("{id}: {answer}"))?;
    let found = find(maker, kind, &id)?;
    ensure(at(&found, "/state") == "cancelled", || {
        format!("found {found}")
    })
}

/// Moved, run at once, changed.
fn change(scene: &mut Scene, kind: &str, maker: &mut Instance, other: &mut Instance) -> Result<()> {
    let moved = scene.send(maker, kind, "moved", LATER)?;
    scene.may_start_now(kind, &moved)?;
    is_changed(&other.ask(&Command::Reschedule(kind.to_owned(), moved, 100))?)?;
    let hastened = scene.send(maker, kind, "hastened", LATER)?;
    scene.may_start_now(kind, &hastened)?;
    is_changed(&other.ask(&Command::RunNow(kind.to_owned(), hastened))?)?;
    let updated = scene.send(maker, kind, "before", LATER)?;
    let text = "after".to_owned();
    is_changed(&other.ask(&Command::Update(
        kind.to_owned(),
        updated.clone(),
        text.clone(),
    ))?)?;
    scene.expect(kind, &updated)?.message = text;
    scene.may_start_now(kind, &updated)?;
    is_changed(&maker.ask(&Command::RunNow(kind.to_owned(), updated))?)
}

/// The answer to a change says that it was made.
pub(crate) fn is_changed(answer: &serde_json::Value) -> Result<()> {
    let text = answer.to_string();
    ensure(text.contains("Changed"), || format!("not changed: {text}"))
}

/// The same id once more: the same request, another one, in its place, debounced.
fn send_again(
    scene: &mut Scene,
    kind: &str,
    maker: &mut Instance,
    other: &mut Instance,
) -> Result<()> {
    let replaced = scene.send(maker, kind, "first", LATER)?;
    let task = (kind, replaced.as_str());
    let refused = scene.send_known(other, task, "second", Known::Refuse);
    let refused = refused.map_or_else(|error| error.to_string(), |receipt| receipt.to_string());
    ensure(refused.contains("exists already"), || {
        format!("{replaced}: {refused}")
    })?;
    let receipt = scene.send_known(other, task, "second", Known::Replace)?;
    ensure(at(&receipt, "/replaced") == true, || {
        format!("{replaced}: {receipt}")
    })?;
    scene.line("the end", task, |line| line.what == What::Done)?;
    let known = scene.send_known(maker, task, "second", Known::Refuse)?;
    ensure(at(&known, "/outcome") == "already_exists", || {
        format!("{replaced}: {known}")
    })?;

    // Each send puts it off, so nothing starts it before it is told to.
    let debounced = scene.send(maker, kind, "one", LATER)?;
    let task = (kind, debounced.as_str());
    for (by, message) in [(&mut *maker, "two"), (&mut *other, "three")] {
        let receipt = scene.send_known(by, task, message, Known::Debounce)?;
        ensure(at(&receipt, "/replaced") == true, || {
            format!("{debounced}: {receipt}")
        })?;
    }
    is_changed(&other.ask(&Command::RunNow(kind.to_owned(), debounced))?)
}

fn groups(scene: &mut Scene, kind: &str, maker: &mut Instance, other: &mut Instance) -> Result<()> {
    for (group, done) in [("moved", Done::Times(1)), ("cancelled", Done::Times(0))] {
        let group = format!("{group}-{}", maker.name);
        for _ in 0..3 {
            let id = scene.send_in_group(maker, (kind, &group), "grouped", LATER)?;
            scene.is_done(kind, &id, done)?;
            scene.may_start_now(kind, &id)?;
        }
        let (kind, group) = key(kind, &group);
        let count = other.ask(&Command::Count(kind.clone(), group.clone()))?;
        ensure(count == 3, || format!("{count} in {group}"))?;
        let changed = if done == Done::Times(0) {
            other.ask(&Command::CancelAll(kind, group))?
        } else {
            other.ask(&Command::RescheduleAll(kind, group, 0))?
        };
        ensure(changed == 3, || format!("{changed} changed"))?;
    }
    Ok(())
}

/// Dead tasks: listed, requeued, discarded.
fn dead(scene: &mut Scene, maker: &mut Instance, other: &mut Instance) -> Result<()> {
    let requeued = scene.send(maker, RETRIED, "die", 0)?;
    is_listed_dead(other, &requeued)?;
    let repeated = scene.send(maker, RETRIED, "fail", 0)?;
    for by in [&mut *maker, &mut *other] {
        by.ask(&Command::Mood {
            holds: true,
            dies: false,
        })?;
    }
    let ids = other.ask(&Command::Requeue(RETRIED.to_owned()))?;
    ensure(ids.to_string().contains(&requeued), || {
        format!("{requeued}: requeued {ids}")
    })?;
    for id in [&requeued, &repeated] {
        scene.line("the end", (RETRIED, id), |line| line.what == What::Done)?;
    }
    for by in [&mut *maker, &mut *other] {
        by.ask(&Command::Mood {
            holds: true,
            dies: true,
        })?;
    }
    let discarded = scene.send(maker, RETRIED, "die", 0)?;
    scene.is_done(RETRIED, &discarded, Done::StartedInVain)?;
    is_listed_dead(other, &discarded)?;
    let ids = other.ask(&Command::Discard(RETRIED.to_owned()))?;
    ensure(ids.to_string().contains(&discarded), || {
        format!("{discarded}: discarded {ids}")
    })
}

/// Awaits that a task is dead; it is listed with its error.
pub(crate) fn is_listed_dead(by: &mut Instance, id: &str) -> Result<()> {
    let page = until(&format!("the death of {id}"), || {
        let page = by.ask(&Command::List(RETRIED.to_owned(), "dead".to_owned()))?;
        let text = page.to_string();
        Ok(text.contains(&format!("\"{id}\"")).then_some(page))
    })?;
    let tasks = at(&page, "/tasks")
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let task = tasks.iter().find(|task| at(task, "/id") == id);
    let error = task.and_then(|task| at(task, "/history/last_error").as_str());
    ensure(
        error.is_some_and(|error| error.contains("asked to die")),
        || format!("{id} at {}: {task:?}", by.name),
    )
}

/// Running tasks: cancelled, asked to run again.
fn running(scene: &mut Scene, maker: &mut Instance, other: &mut Instance) -> Result<()> {
    let again = scene.send(maker, HELD, "hold", 0)?;
    let cancelled = scene.send(maker, HELD, "hold", 0)?;
    for id in [&again, &cancelled] {
        scene.line("the start", (HELD, id), |line| line.what == What::Started)?;
        let found = find(other, HELD, id)?;
        ensure(at(&found, "/state") == "running", || {
            format!("found {found}")
        })?;
    }
    let not_before = scene.expect(HELD, &again)?.not_before;
    let receipt = scene.send_known(other, (HELD, &again), "again", Known::Again)?;
    ensure(at(&receipt, "/outcome") == "runs_again", || {
        format!("{again}: {receipt}")
    })?;
    let expected = scene.expect(HELD, &again)?;
    (expected.not_before, expected.done) = (not_before, Done::Times(2));
    let found = find(maker, HELD, &again)?;
    ensure(at(&found, "/again_at").is_i64(), || {
        format!("found {found}")
    })?;

    scene.is_done(HELD, &cancelled, Done::StartedInVain)?;
    let answer = other.ask(&Command::Cancel(HELD.to_owned(), cancelled.clone()))?;
    ensure(answer == "Running", || format!("{cancelled}: {answer}"))?;
    until("the end of a cancelled task", || {
        let found = find(maker, HELD, &cancelled)?;
        Ok((at(&found, "/state") == "cancelled").then_some(()))
    })?;
    for by in [&mut *maker, &mut *other] {
        by.ask(&Command::Mood {
            holds: false,
            dies: true,
        })?;
    }
    let is_again = |line: &Line| line.message == "again" && line.what == What::Done;
    scene.line("the second end", (HELD, &again), is_again)?;
    for by in [maker, other] {
        by.ask(&Command::Mood {
            holds: true,
            dies: true,
        })?;
    }
    Ok(())
}

fn pause(scene: &mut Scene, maker: &mut Instance, other: &mut Instance) -> Result<()> {
    let met = maker.ask(&Command::Pause(FAST.to_owned()))?;
    ensure(met == 1, || format!("{met} types paused"))?;
    for by in [&mut *maker, &mut *other] {
        scene.send(by, FAST, "paused", 0)?;
    }
    let stats = other.ask(&Command::Stats(FAST.to_owned()))?;
    let is_paused =
        !at(&stats, "/paused_until").is_null() && at(&stats, "/due").as_u64() >= Some(2);
    ensure(is_paused, || format!("not paused: {stats}"))?;
    other.ask(&Command::Resume(FAST.to_owned()))?;
    let stats = maker.ask(&Command::Stats(FAST.to_owned()))?;
    ensure(at(&stats, "/paused_until").is_null(), || {
        format!("still paused: {stats}")
    })
}

/// A bound that one sets holds for the other.
fn bound(scene: &mut Scene, maker: &mut Instance, other: &mut Instance) -> Result<()> {
    let former = || FORMER.to_owned();
    maker.ask(&Command::Pause(former()))?;
    let present = at(&maker.ask(&Command::Stats(former()))?, "/scheduled").as_u64();
    let most = present.map(|scheduled| scheduled + 1);
    maker.ask(&Command::MaxPending(former(), most))?;
    scene.send(other, FORMER, "within", 0)?;
    let beyond = Command::Send {
        kind: former(),
        id: format!("beyond-{}", other.name),
        message: String::new(),
        after_ms: 0,
        known: Known::Refuse,
        group: String::new(),
    };
    let answer = other.try_ask(&beyond)?;
    ensure(answer.is_err(), || format!("beyond the bound: {answer:?}"))?;
    other.ask(&Command::MaxPending(former(), None))?;
    other.ask(&Command::Resume(former()))?;
    Ok(())
}
