//! The state of a client: its used and watched tubes, its reserved jobs and its pending answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delayq_ops::Operator;
use delayq_plugin::store::ActionEnd;
use delayq_plugin::{Error, Result, TaskState};
use delayq_service::context::Context;
use tokio::time::Instant;
use tracing::debug;

use super::hub::{Hub, pause_type};
use super::input::Order;
use super::job::{Held, Job, Reserved};
use super::jobs;
use super::moves;
use super::report;
use super::tube::{Pause, TubeName};

/// A client that reserves within this time before the end of a held job gets `DEADLINE_SOON`.
const MARGIN: Duration = Duration::from_secs(1);
const NOT_FOUND: &str = "NOT_FOUND";

/// The result of a command.
type Answered = Result<()>;

/// The client of a connection.
pub(super) struct Client {
    pub(super) hub: Arc<Hub>,
    /// The id of the client as a holder of jobs.
    pub(super) holder: u64,
    pub(super) used: TubeName,
    pub(super) watched: Vec<TubeName>,
    /// The jobs that it has reserved; some may no longer be held.
    pub(super) jobs: BTreeSet<u64>,
    pub(super) out: Vec<u8>,
    pub(super) is_producer: bool,
    pub(super) is_worker: bool,
    pub(super) context: Context,
    /// Logs the client's changes to jobs that it does not hold.
    pub(super) operator: Operator,
}

impl Client {
    /// A new client.
    pub(super) fn new(hub: Arc<Hub>, origin: String) -> Self {
        let context = hub.context(origin);
        let count = &hub.counters;
        count.connections.add(1);
        count.connections_ever.add(1);
        hub.holders.add(1);
        let first = TubeName::first();
        let mut state = hub.state();
        let tube = state.tube(&first);
        tube.using += 1;
        tube.watching += 1;
        drop(state);
        Self {
            holder: hub.counters.connections_ever.get() << 20 | hub.holders.get() & 0xf_ffff,
            used: first.clone(),
            watched: vec![first],
            jobs: BTreeSet::new(),
            out: Vec::new(),
            is_producer: false,
            is_worker: false,
            operator: context.operator(),
            context,
            hub,
        }
    }

    /// Counts that the client starts or stops waiting for a job.
    pub(super) fn count_waiting(&self, begins: bool) {
        let mut state = self.hub.state();
        for name in &self.watched {
            let tube = state.tube(name);
            if begins {
                tube.waiting += 1;
            } else {
                tube.waiting = tube.waiting.saturating_sub(1);
            }
        }
        let count = &self.hub.counters.waiting;
        if begins {
            count.add(1);
        } else {
            count.sub(1);
        }
    }

    /// The time from which the first of its held jobs is close to its end.
    pub(super) fn soonest(&self) -> Option<Instant> {
        let state = self.hub.state();
        let held = self.jobs.iter();
        let held = held.filter_map(|number| state.held_by(self.holder, *number));
        let soonest = held.map(|held| held.deadline).min();
        soonest.map(|at| at.checked_sub(MARGIN).unwrap_or(at))
    }

    pub(super) fn note_producer(&mut self) {
        if !self.is_producer {
            self.is_producer = true;
            self.hub.counters.producers.add(1);
        }
    }

    pub(super) fn note_worker(&mut self) {
        if !self.is_worker {
            self.is_worker = true;
            self.hub.counters.workers.add(1);
        }
    }

    pub(super) fn say_reserved(&mut self, reserved: &Reserved) {
        self.jobs.insert(reserved.number);
        self.say_body(&format!("RESERVED {}", reserved.number), &reserved.body);
    }

    /// Answers with a line.
    pub(super) fn say(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Answers with a line that ends in the length of the body, and the body.
    fn say_body(&mut self, line: &str, body: &[u8]) {
        self.say(&format!("{line} {}", body.len()));
        self.out.extend_from_slice(body);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) fn say_error(&mut self, error: &Error) {
        debug!(%error, "a beanstalkd request failed");
        let line = match error {
            Error::Full { .. } | Error::QueueFull { .. } | Error::InvalidInput { .. } => {
                "OUT_OF_MEMORY"
            }
            Error::LimitExceeded { .. } => "JOB_TOO_BIG",
            _ => "INTERNAL_ERROR",
        };
        self.say(line);
    }

    /// Releases the jobs of the client and its references to tubes.
    pub(super) async fn leave(self) {
        let hub = &self.hub;
        let left = {
            let mut state = hub.state();
            state.tube(&self.used).using -= 1;
            for name in &self.watched {
                state.tube(name).watching -= 1;
                state.drop_unused(name);
            }
            state.drop_unused(&self.used);
            state.take_all(self.holder, &self.jobs)
        };
        let count = &hub.counters;
        count.connections.sub(1);
        count.producers.sub(u64::from(self.is_producer));
        count.workers.sub(u64::from(self.is_worker));
        jobs::leave(hub, left).await;
    }
}

/// Handles every command except puts and reservations.
pub(super) async fn answer(client: &mut Client, order: Order) -> Answered {
    match order {
        Order::Use(tube) => use_tube(client, tube),
        Order::Watch(tube) => watch(client, tube),
        Order::Ignore(tube) => ignore(client, &tube),
        Order::ReserveJob(number) => reserve_job(client, number).await?,
        Order::Delete(number) => delete(client, number).await?,
        Order::Release { number, pri, delay } => release(client, number, pri, delay).await?,
        Order::Bury { number, pri } => bury(client, number, pri).await?,
        Order::Touch(number) => touch(client, number),
        Order::Peek(number) => {
            client.hub.counters.peek.add(1);
            let job = jobs::find(&client.hub, number).await?;
            say_found(client, job);
        }
        Order::PeekReady => {
            client.hub.counters.peek_ready.add(1);
            let job = jobs::first_ready(&client.hub, &client.used).await?;
            say_found(client, job);
        }
        Order::PeekDelayed => {
            client.hub.counters.peek_delayed.add(1);
            let job = jobs::first(&client.hub, &client.used, TaskState::Scheduled).await?;
            say_found(client, job);
        }
        Order::PeekBuried => {
            client.hub.counters.peek_buried.add(1);
            let job = jobs::first(&client.hub, &client.used, TaskState::Dead).await?;
            say_found(client, job);
        }
        Order::Kick(bound) => {
            client.hub.counters.kick.add(1);
            let kicked = jobs::kick_some(&client.hub, &client.used, bound).await?;
            if kicked > 0 {
                let tube = client.used.to_string();
                let action = client.operator.action("kick", &tube).counted(kicked);
                client.operator.record(&action).await;
            }
            client.say(&format!("KICKED {kicked}"));
        }
        Order::KickJob(number) => kick_job(client, number).await?,
        Order::PauseTube(tube, seconds) => pause(client, &tube, seconds).await?,
        other => return report(client, other).await,
    }
    Ok(())
}

async fn report(client: &mut Client, order: Order) -> Answered {
    let hub = Arc::clone(&client.hub);
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
            Some(report::list(&client.watched))
        }
        _ => {
            count.list_tube_used.add(1);
            client.say(&format!("USING {}", client.used.clone()));
            return Ok(());
        }
    };
    match text {
        Some(text) => client.say_body("OK", text.as_bytes()),
        None => client.say(NOT_FOUND),
    }
    Ok(())
}

fn use_tube(client: &mut Client, tube: TubeName) {
    client.hub.counters.use_tube.add(1);
    let mut state = client.hub.state();
    state.tube(&client.used).using -= 1;
    state.tube(&tube).using += 1;
    state.drop_unused(&client.used);
    drop(state);
    client.say(&format!("USING {tube}"));
    client.used = tube;
}

fn watch(client: &mut Client, tube: TubeName) {
    client.hub.counters.watch.add(1);
    if !client.watched.contains(&tube) {
        client.hub.state().tube(&tube).watching += 1;
        client.watched.push(tube);
    }
    client.say(&format!("WATCHING {}", client.watched.len()));
}

fn ignore(client: &mut Client, tube: &TubeName) {
    client.hub.counters.ignore.add(1);
    if let Some(place) = client.watched.iter().position(|known| known == tube) {
        if client.watched.len() == 1 {
            return client.say("NOT_IGNORED");
        }
        client.watched.swap_remove(place);
        let mut state = client.hub.state();
        state.tube(tube).watching -= 1;
        state.drop_unused(tube);
    }
    client.say(&format!("WATCHING {}", client.watched.len()));
}

async fn reserve_job(client: &mut Client, number: u64) -> Answered {
    client.note_worker();
    let hub = Arc::clone(&client.hub);
    let reserved = match jobs::find(&hub, number).await? {
        Some(job) => moves::reserve_job(&hub, client.holder, job).await?,
        None => None,
    };
    match reserved {
        Some(reserved) => client.say_reserved(&reserved),
        None => client.say(NOT_FOUND),
    }
    Ok(())
}

/// Puts back a job that could not be settled: it stays held until its lock expires.
fn keep(hub: &Hub, held: Held) {
    hub.state().hold(held);
}

async fn delete(client: &mut Client, number: u64) -> Answered {
    let hub = Arc::clone(&client.hub);
    let held = hub.state().take(client.holder, number);
    let is_gone = match held {
        Some(held) => {
            let deleted = jobs::delete_held(&hub, &held).await;
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
    client.jobs.remove(&number);
    hub.counters.delete.add(1);
    client.say(if is_gone { "DELETED" } else { NOT_FOUND });
    Ok(())
}

async fn release(client: &mut Client, number: u64, pri: u32, delay: u32) -> Answered {
    let hub = Arc::clone(&client.hub);
    let held = hub.state().take(client.holder, number);
    let is_released = match held {
        Some(held) => {
            let released = jobs::release(&hub, &held, pri, delay).await;
            released.inspect_err(|_| keep(&hub, held))?
        }
        None => false,
    };
    client.jobs.remove(&number);
    hub.counters.release.add(1);
    client.say(if is_released { "RELEASED" } else { NOT_FOUND });
    Ok(())
}

async fn bury(client: &mut Client, number: u64, pri: u32) -> Answered {
    let hub = Arc::clone(&client.hub);
    let held = hub.state().take(client.holder, number);
    let is_buried = match held {
        Some(held) => {
            let buried = jobs::bury(&hub, &held, pri).await;
            buried.inspect_err(|_| keep(&hub, held))?
        }
        None => false,
    };
    client.jobs.remove(&number);
    hub.counters.bury.add(1);
    client.say(if is_buried { "BURIED" } else { NOT_FOUND });
    Ok(())
}

/// Only the deadline is moved; the lock is extended anyway.
fn touch(client: &mut Client, number: u64) {
    client.hub.counters.touch.add(1);
    let mut state = client.hub.state();
    let held = state.held_by(client.holder, number);
    let ttr = held.map(|held| Duration::from_secs(held.past.ttr.into()));
    if let Some(ttr) = ttr {
        state.set_deadline(number, Instant::now() + ttr);
    }
    drop(state);
    client.hub.reserved.notify_one();
    client.say(if ttr.is_some() { "TOUCHED" } else { NOT_FOUND });
}

async fn kick_job(client: &mut Client, number: u64) -> Answered {
    client.hub.counters.kick.add(1);
    let hub = Arc::clone(&client.hub);
    let is_kicked = match jobs::find(&hub, number).await? {
        Some(job) => {
            let tube = job.tube.to_string();
            let is_kicked = jobs::kick(&hub, &job).await?;
            if is_kicked {
                let action = client.operator.action("kick", &tube);
                let action = action.on(number.to_string());
                client.operator.record(&action).await;
            }
            is_kicked
        }
        None => false,
    };
    client.say(if is_kicked { "KICKED" } else { NOT_FOUND });
    Ok(())
}

async fn pause(client: &mut Client, tube: &TubeName, seconds: u32) -> Answered {
    let hub = Arc::clone(&client.hub);
    if !report::is_there(&hub, tube).await? {
        client.say(NOT_FOUND);
        return Ok(());
    }
    hub.counters.pause_tube.add(1);
    hub.refresh().await?;
    let length = Duration::from_secs(seconds.into());
    let until = Hub::now().plus(length);
    let lanes = hub.lanes(tube).into_iter().map(|lane| lane.task_type);
    // The tube's own pause comes first, so that a lane created now is paused, too.
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
    let action = client.operator.action(verb, &tube.to_string());
    let action = match seconds {
        0 => action,
        _ => action.ended(ActionEnd::Done, format!("until {until}")),
    };
    client.operator.record(&action).await;
    client.say("PAUSED");
    Ok(())
}

fn say_found(client: &mut Client, job: Option<Job>) {
    match job {
        Some(job) => {
            let body = job.info.message.unwrap_or_default();
            client.say_body(&format!("FOUND {}", job.number), &body);
        }
        None => client.say(NOT_FOUND),
    }
}
