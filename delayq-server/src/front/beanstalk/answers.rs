//! The answers to all orders but puts and reservations.

use std::time::Duration;

use delayq_plugin::TaskState;
use delayq_plugin::store::ActionEnd;
use tokio::time::Instant;

use super::ends;
use super::hub::{Hub, pause_type};
use super::jobs::{self, Job};
use super::moves;
use super::order::Order;
use super::report;
use super::session::{Answered, Session};
use super::tube::Pause;
use super::tube_name::TubeName;

const NOT_FOUND: &str = "NOT_FOUND";

pub(super) async fn answer(session: &mut Session, order: Order) -> Answered {
    match order {
        Order::Use(tube) => use_tube(session, tube),
        Order::Watch(tube) => watch(session, tube),
        Order::Ignore(tube) => ignore(session, &tube),
        Order::ReserveJob(number) => reserve_job(session, number).await?,
        Order::Delete(number) => delete(session, number).await?,
        Order::Release { number, pri, delay } => release(session, number, pri, delay).await?,
        Order::Bury { number, pri } => bury(session, number, pri).await?,
        Order::Touch(number) => touch(session, number),
        Order::Peek(number) => {
            session.hub.counters.peek.add(1);
            let job = jobs::find(&session.hub, number).await?;
            say_found(session, job);
        }
        Order::PeekReady => {
            session.hub.counters.peek_ready.add(1);
            let job = jobs::first_ready(&session.hub, &session.used).await?;
            say_found(session, job);
        }
        Order::PeekDelayed => {
            session.hub.counters.peek_delayed.add(1);
            let job = jobs::first(&session.hub, &session.used, TaskState::Scheduled).await?;
            say_found(session, job);
        }
        Order::PeekBuried => {
            session.hub.counters.peek_buried.add(1);
            let job = jobs::first(&session.hub, &session.used, TaskState::Dead).await?;
            say_found(session, job);
        }
        Order::Kick(bound) => {
            session.hub.counters.kick.add(1);
            let kicked = jobs::kick_some(&session.hub, &session.used, bound).await?;
            if kicked > 0 {
                let tube = session.used.to_string();
                let action = session.operator.action("kick", &tube).counted(kicked);
                session.operator.record(&action).await;
            }
            session.say(&format!("KICKED {kicked}"));
        }
        Order::KickJob(number) => kick_job(session, number).await?,
        Order::PauseTube(tube, seconds) => pause(session, &tube, seconds).await?,
        other => return report(session, other).await,
    }
    Ok(())
}

async fn report(session: &mut Session, order: Order) -> Answered {
    let hub = std::sync::Arc::clone(&session.hub);
    let count = &hub.counters;
    let text = match order {
        Order::Stats => {
            count.stats.add(1);
            Some(report::server(&hub).await?)
        }
        Order::StatsJob(number) => {
            let job = jobs::find(&hub, number).await?;
            count.stats_job.add(1);
            job.map(|job| report::job(&hub, &job))
        }
        Order::StatsTube(tube) => {
            let text = report::tube(&hub, &tube).await?;
            count.stats_tube.add(1);
            text
        }
        Order::ListTubes => {
            count.list_tubes.add(1);
            Some(report::list(&report::tubes(&hub).await?))
        }
        Order::ListTubesWatched => {
            count.list_tubes_watched.add(1);
            Some(report::list(&session.watched))
        }
        _ => {
            count.list_tube_used.add(1);
            session.say(&format!("USING {}", session.used.clone()));
            return Ok(());
        }
    };
    match text {
        Some(text) => session.say_body("OK", text.as_bytes()),
        None => session.say(NOT_FOUND),
    }
    Ok(())
}

fn use_tube(session: &mut Session, tube: TubeName) {
    session.hub.counters.use_tube.add(1);
    let mut state = session.hub.state();
    state.tube(&session.used).using -= 1;
    state.tube(&tube).using += 1;
    state.drop_unused(&session.used);
    drop(state);
    session.say(&format!("USING {tube}"));
    session.used = tube;
}

fn watch(session: &mut Session, tube: TubeName) {
    session.hub.counters.watch.add(1);
    if !session.watched.contains(&tube) {
        session.hub.state().tube(&tube).watching += 1;
        session.watched.push(tube);
    }
    session.say(&format!("WATCHING {}", session.watched.len()));
}

fn ignore(session: &mut Session, tube: &TubeName) {
    session.hub.counters.ignore.add(1);
    if let Some(place) = session.watched.iter().position(|known| known == tube) {
        if session.watched.len() == 1 {
            return session.say("NOT_IGNORED");
        }
        session.watched.swap_remove(place);
        let mut state = session.hub.state();
        state.tube(tube).watching -= 1;
        state.drop_unused(tube);
    }
    session.say(&format!("WATCHING {}", session.watched.len()));
}

async fn reserve_job(session: &mut Session, number: u64) -> Answered {
    session.note_worker();
    let hub = std::sync::Arc::clone(&session.hub);
    let reserved = match jobs::find(&hub, number).await? {
        Some(job) => moves::reserve_job(&hub, session.holder, job).await?,
        None => None,
    };
    match reserved {
        Some(reserved) => session.say_reserved(&reserved),
        None => session.say(NOT_FOUND),
    }
    Ok(())
}

/// Puts a job back that could not be settled: it is held until its lock expires.
fn keep(hub: &Hub, held: super::held::Held) {
    hub.state().hold(held);
}

async fn delete(session: &mut Session, number: u64) -> Answered {
    let hub = std::sync::Arc::clone(&session.hub);
    let held = hub.state().take(session.holder, number);
    let is_gone = match held {
        Some(held) => {
            let deleted = ends::delete(&hub, &held).await;
            let is_gone = deleted.inspect_err(|_| keep(&hub, held.clone()))?;
            if is_gone {
                let mut state = hub.state();
                state.tube(&held.tube).deletes += 1;
                state.forget(number);
            }
            is_gone
        }
        None => jobs::delete(&hub, number).await?,
    };
    session.jobs.remove(&number);
    hub.counters.delete.add(1);
    session.say(if is_gone { "DELETED" } else { NOT_FOUND });
    Ok(())
}

async fn release(session: &mut Session, number: u64, pri: u32, delay: u32) -> Answered {
    let hub = std::sync::Arc::clone(&session.hub);
    let held = hub.state().take(session.holder, number);
    let is_released = match held {
        Some(held) => {
            let released = ends::release(&hub, &held, pri, delay).await;
            released.inspect_err(|_| keep(&hub, held))?
        }
        None => false,
    };
    session.jobs.remove(&number);
    hub.counters.release.add(1);
    session.say(if is_released { "RELEASED" } else { NOT_FOUND });
    Ok(())
}

async fn bury(session: &mut Session, number: u64, pri: u32) -> Answered {
    let hub = std::sync::Arc::clone(&session.hub);
    let held = hub.state().take(session.holder, number);
    let is_buried = match held {
        Some(held) => {
            let buried = ends::bury(&hub, &held, pri).await;
            buried.inspect_err(|_| keep(&hub, held))?
        }
        None => false,
    };
    session.jobs.remove(&number);
    hub.counters.bury.add(1);
    session.say(if is_buried { "BURIED" } else { NOT_FOUND });
    Ok(())
}

/// The lock is extended anyway.
fn touch(session: &mut Session, number: u64) {
    session.hub.counters.touch.add(1);
    let mut state = session.hub.state();
    let held = state.held_by(session.holder, number);
    let ttr = held.map(|held| Duration::from_secs(held.past.ttr.into()));
    if let Some(ttr) = ttr {
        state.set_deadline(number, Instant::now() + ttr);
    }
    drop(state);
    session.hub.reserved.notify_one();
    session.say(if ttr.is_some() { "TOUCHED" } else { NOT_FOUND });
}

async fn kick_job(session: &mut Session, number: u64) -> Answered {
    session.hub.counters.kick.add(1);
    let hub = std::sync::Arc::clone(&session.hub);
    let is_kicked = match jobs::find(&hub, number).await? {
        Some(job) => {
            let tube = job.tube.to_string();
            let is_kicked = jobs::kick(&hub, &job).await?;
            if is_kicked {
                let action = session.operator.action("kick", &tube);
                let action = action.on(number.to_string());
                session.operator.record(&action).await;
            }
            is_kicked
        }
        None => false,
    };
    session.say(if is_kicked { "KICKED" } else { NOT_FOUND });
    Ok(())
}

async fn pause(session: &mut Session, tube: &TubeName, seconds: u32) -> Answered {
    let hub = std::sync::Arc::clone(&session.hub);
    if !report::is_there(&hub, tube).await? {
        session.say(NOT_FOUND);
        return Ok(());
    }
    hub.counters.pause_tube.add(1);
    hub.refresh().await?;
    let length = Duration::from_secs(seconds.into());
    let until = Hub::now().plus(length);
    let lanes = hub.lanes(tube).into_iter().map(|lane| lane.task_type);
    // First that of the tube, so that a lane that is made now is paused, too.
    for task_type in std::iter::once(pause_type(tube)?).chain(lanes) {
        if seconds == 0 {
            hub.store.resume(&task_type).await?;
        } else {
            hub.store.pause(&task_type, Some(until)).await?;
        }
    }
    let end = Instant::now().checked_add(length);
    hub.note_pause(tube, end.map(|until| Pause { length, until }));
    hub.heard_of_all();
    let verb = if seconds == 0 { "resume" } else { "pause" };
    let action = session.operator.action(verb, &tube.to_string());
    let action = match seconds {
        0 => action,
        _ => action.ended(ActionEnd::Done, format!("until {until}")),
    };
    session.operator.record(&action).await;
    session.say("PAUSED");
    Ok(())
}

fn say_found(session: &mut Session, job: Option<Job>) {
    match job {
        Some(job) => {
            let body = job.info.message.unwrap_or_default();
            session.say_body(&format!("FOUND {}", job.number), &body);
        }
        None => session.say(NOT_FOUND),
    }
}
