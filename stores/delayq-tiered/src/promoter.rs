//! Promoters: they move tasks that become due from cold to hot.
//!
//! One loop a type of cold claims there, as a handler does: it sleeps until the time that the last
//! claim said, or until a wake-up. A move is a claim of cold, a submit to hot and a settlement in
//! cold. Of several instances, that with the lock moves a task.

mod delivery;
mod doubt;
mod mover;
mod thread;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{Wakeup, Wakeups};
use delayq_core::{Result, TaskType, seconds};
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::warn;

use self::mover::Mover;
use self::thread::PromoterThread;
use crate::pair;
use crate::parts::{Parts, pause};

/// How long [`Promoters::stop`] waits for the move in progress.
const LAST_MOVE: Duration = seconds(5);

/// The promoters of an instance, on a thread of their own. They end with this value.
#[derive(Debug)]
pub(crate) struct Promoters {
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
    _thread: PromoterThread,
}

impl Promoters {
    /// Starts the thread. It moves tasks after `opening`.
    pub(crate) fn start(
        parts: Arc<Parts>,
        opening: Option<BoxFuture<'static, ()>>,
    ) -> Result<Self> {
        let name = parts.name();
        let thread = PromoterThread::start(&name)?;
        let (stop, mut stopped) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        thread.spawn(async move {
            if let Some(opening) = opening {
                tokio::select! {
                    () = opening => {}
                    _ = stopped.changed() => {}
                }
            }
            run(parts, stopped).await;
            end.send_replace(true);
        });
        Ok(Self {
            stop,
            ended,
            _thread: thread,
        })
    }

    /// Ends them after the move in progress.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(|has_ended| *has_ended);
        if timeout(LAST_MOVE, ended).await.is_err() {
            warn!("the store is closed before the end of a move, which another instance repeats");
        }
    }
}

/// The loop of a type.
#[derive(Debug)]
struct TypeLoop {
    wake: Arc<Notify>,
    task: JoinHandle<()>,
}

/// Starts a loop for each type of cold, until the end of the store.
async fn run(parts: Arc<Parts>, mut stopped: watch::Receiver<bool>) {
    let mut loops = HashMap::new();
    let mut wakeups = parts.cold.wakeups();
    let of_loops = stopped.clone();
    while !is_over(&stopped) {
        // What fails here is asked again after a moment.
        let types = parts.cold.types().await.unwrap_or_default();
        // A hot store that was lost has no role and no marks.
        if !types.is_empty() {
            pair::restore(&*parts.hot, &*parts.cold).await.ok();
        }
        let marks = &parts.marks;
        marks.restore(&*parts.hot, &*parts.cold).await.ok();
        for task_type in types {
            parts.marks.tell(&*parts.cold, &task_type).await.ok();
            woken(&parts, &mut loops, &of_loops, task_type);
        }
        let again = pause(parts.options.poll);
        tokio::select! {
            () = again => {}
            _ = stopped.changed() => {}
            () = hear(&parts, &mut wakeups, &mut loops, &of_loops) => {}
        }
    }
    for one in loops.into_values() {
        one.wake.notify_one();
        let _ = one.task.await;
    }
}

/// True once the store is closed, or gone.
fn is_over(stopped: &watch::Receiver<bool>) -> bool {
    *stopped.borrow() || stopped.has_changed().is_err()
}

/// Passes wake-ups of cold on to the loops, as long as there are any.
async fn hear(
    parts: &Arc<Parts>,
    wakeups: &mut Wakeups,
    loops: &mut HashMap<TaskType, TypeLoop>,
    stopped: &watch::Receiver<bool>,
) {
    loop {
        let wakeup = tokio::select! {
            wakeup = wakeups.next() => wakeup,
            () = parts.hurry.notified() => Some(Wakeup::All),
        };
        match wakeup {
            None => return std::future::pending().await,
            Some(wakeup) => match wakeup.task_type() {
                Some(task_type) => woken(parts, loops, stopped, task_type.clone()),
                None => loops.values().for_each(|one| one.wake.notify_one()),
            },
        }
    }
}

/// Wakes the loop of a type, or starts it.
fn woken(
    parts: &Arc<Parts>,
    loops: &mut HashMap<TaskType, TypeLoop>,
    stopped: &watch::Receiver<bool>,
    task_type: TaskType,
) {
    let known = loops.get(&task_type);
    if let Some(known) = known.filter(|known| !known.task.is_finished()) {
        known.wake.notify_one();
        return;
    }
    let wake = Arc::new(Notify::new());
    let mover = Mover::new(Arc::clone(parts), task_type.clone());
    let task = tokio::spawn(serve(mover, Arc::clone(&wake), stopped.clone()));
    loops.insert(task_type, TypeLoop { wake, task });
}

/// Moves the tasks of a type until the end of the store.
async fn serve(mut mover: Mover, wake: Arc<Notify>, mut stopped: watch::Receiver<bool>) {
    while !is_over(&stopped) {
        let wait = mover.move_due(&stopped).await;
        tokio::select! {
            () = mover.sleep(wait) => {}
            () = wake.notified() => {}
            _ = stopped.changed() => {}
        }
    }
}
