//! One case: a scenario, played by processes that meet the planned faults.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::Store;
use delayq_plugin::{
    Clock, DelayQueuePlugin, Delivery, Result, StartError, TaskContext, TaskResult, TaskState,
    TaskSubmitService, TaskType, TaskWorker, WorkerOptions, millis, seconds,
};
use delayq_testing::{Crash, Fault, FaultyStore};

use crate::ledger::{Ledger, Start};

/// The one task of a case: its type and its id.
pub(crate) const TYPE: &str = "job";
pub(crate) const ID: &str = "a";
/// How late a late call is: longer than a lock lasts, and shorter than two, so that one lock
/// expires of a task.
pub(crate) fn late(lock: Duration) -> Duration {
    lock * 3 / 2
}

/// Longer than any scenario may take, with two crashes.
const LIMIT: Duration = seconds(120);

/// A fault of one process: the number of the call, from 1, and what happens to it.
pub(crate) type Planned = (usize, Fault);

/// What a worker does: with its context, how often it was started before, and the world.
pub(crate) type Behaviour = fn(Turn) -> Pin<Box<dyn Future<Output = TaskResult> + Send>>;

/// What a behaviour is told.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) cx: TaskContext,
    pub(crate) nth: usize,
    pub(crate) clock: Arc<dyn Clock>,
    /// To kill its own process.
    pub(crate) process: Crash,
    /// Set by the scenario.
    pub(crate) mended: Arc<AtomicBool>,
}

impl Turn {
    pub(crate) async fn sleep(&self, span: Duration) {
        self.clock.sleep_until(self.clock.elapsed() + span).await;
    }
}

/// What a case is played on.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Arc<dyn Store>,
    /// All in one thread, under paused time.
    pub(crate) simulated: bool,
}

/// A process: its plugin, its way to the store, and its end.
struct Process {
    service: TaskSubmitService,
    plugin: DelayQueuePlugin,
    crashed: Crash,
}

pub(crate) struct World {
    pub(crate) ground: Ground,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) mended: Arc<AtomicBool>,
    options: WorkerOptions,
    workers: &'static [(&'static str, Behaviour)],
    planned: Vec<Planned>,
    process: Option<Process>,
    number: usize,
    /// Calls made by each process.
    pub(crate) calls: Vec<Arc<AtomicUsize>>,
    pub(crate) crashes: usize,
}

struct Actor<const N: usize> {
    world: (Arc<Ledger>, Arc<dyn Clock>, Arc<AtomicBool>),
    worker: (&'static str, Behaviour),
    process: (usize, Crash),
}

#[async_trait]
impl<const N: usize> TaskWorker for Actor<N> {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        let (ledger, clock, mended) = self.world.clone();
        let ((worker, behaviour), (process, crashed)) = (self.worker, self.process.clone());
        if crashed.has_happened() {
            // The process ended between the claim and the start.
            std::future::pending::<()>().await;
        }
        let (fence, at) = (cx.fence(), clock.now());
        let nth = ledger.started(
            Start {
                worker,
                process,
                fence,
                at,
            },
            cx,
        );
        let _ending = Ending(Arc::clone(&ledger), worker, process);
        let (cx, process) = (cx.clone(), crashed);
        behaviour(Turn {
            cx,
            nth,
            clock,
            process,
            mended,
        })
        .await
    }
}

/// Tells the ledger when the worker ends, also when it is stopped.
struct Ending(Arc<Ledger>, &'static str, usize);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended(self.1, self.2);
    }
}

impl World {
    pub(crate) fn new(
        ground: Ground,
        options: WorkerOptions,
        workers: &'static [(&'static str, Behaviour)],
        planned: &[Planned],
    ) -> Self {
        let ledger = Arc::new(Ledger::default());
        if options.delivery == Delivery::AtMostOnce {
            ledger.at_most_once();
        }
        if ground.simulated {
            ledger.check_waits_by(Arc::clone(&ground.clock));
        }
        Self {
            ground,
            ledger,
            mended: Arc::default(),
            options,
            workers,
            planned: planned.to_vec(),
            process: None,
            number: 0,
            calls: Vec::new(),
            crashes: 0,
        }
    }

    /// Whether every planned fault has happened, of processes that may still make their calls.
    pub(crate) fn all_fired(&self) -> bool {
        let last = self.number.saturating_sub(1);
        let mut pending = (0..self.planned.len()).filter(|n| !self.has_fired(*n));
        pending.all(|n| n < last)
    }

    /// Whether the planned fault of this process has happened. One that was shut down may have made
    /// fewer calls.
    pub(crate) fn has_fired(&self, process: usize) -> bool {
        let made = self.calls.get(process);
        let made = made.map_or(0, |calls| calls.load(Ordering::SeqCst));
        self.planned
            .get(process)
            .is_none_or(|(call, _)| made >= *call)
    }

    pub(crate) async fn sleep(&self, span: Duration) {
        let clock = &self.ground.clock;
        clock.sleep_until(clock.elapsed() + span).await;
    }

    fn store_of_next_process(&mut self) -> FaultyStore {
        let planned = self.planned.get(self.number).copied();
        self.number += 1;
        let calls = Arc::new(AtomicUsize::new(0));
        self.calls.push(Arc::clone(&calls));
        let plan = move |_| {
            let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
            match planned {
                Some((planned, fault)) if planned == call => fault,
                _ => Fault::None,
            }
        };
        let ledger = Arc::clone(&self.ledger);
        let store = FaultyStore::new(Arc::clone(&self.ground.store), plan);
        let store = store.with_delay(Arc::clone(&self.ground.clock), late(self.options.lock));
        store.with_witness(move |seen| ledger.saw(seen))
    }

    /// The process is started, by whoever looks after processes: again and again until it runs.
    async fn boot(&mut self) {
        'process: loop {
            let store = self.store_of_next_process();
            let crashed = store.crash();
            let store: Arc<dyn Store> = Arc::new(store);
            loop {
                let start = self.start(Arc::clone(&store), &crashed);
                let started = tokio::select! {
                    biased;
                    () = crashed.happened() => None,
                    started = start => Some(started),
                };
                match started {
                    None => {
                        self.bury();
                        continue 'process;
                    }
                    Some(Ok(plugin)) => {
                        let service = plugin.submit_service();
                        self.process = Some(Process {
                            service,
                            plugin,
                            crashed,
                        });
                        return;
                    }
                    Some(Err(StartError::Store(error))) if error.is_transient() => {
                        self.sleep(millis(100)).await;
                    }
                    Some(Err(error)) => panic!("the plugin does not start: {error}"),
                }
            }
        }
    }

    async fn start(
        &self,
        store: Arc<dyn Store>,
        crashed: &Crash,
    ) -> Result<DelayQueuePlugin, StartError> {
        let builder = DelayQueuePlugin::builder()
            .without_registered_workers()
            .store(store);
        let mut builder = builder.clock(Arc::clone(&self.ground.clock));
        if self.ground.simulated {
            builder = builder.on_application_runtime();
        }
        for (n, worker) in self.workers.iter().enumerate() {
            let world = (
                Arc::clone(&self.ledger),
                Arc::clone(&self.ground.clock),
                Arc::clone(&self.mended),
            );
            let process = (self.number, crashed.clone());
            // Workers are told apart by the names of their types.
            builder = match n {
                0 => builder.worker(
                    TYPE,
                    self.options,
                    Actor::<0> {
                        world,
                        worker: *worker,
                        process,
                    },
                ),
                _ => builder.worker(
                    TYPE,
                    self.options,
                    Actor::<1> {
                        world,
                        worker: *worker,
                        process,
                    },
                ),
            };
        }
        builder.start().await
    }

    /// Drops what is left of a process that crashed.
    fn bury(&mut self) {
        self.crashes += 1;
        self.ledger.crashed(self.number);
        self.process = None;
    }

    /// A new process if there is none, or none any more.
    pub(crate) async fn live(&mut self) -> TaskSubmitService {
        if self
            .process
            .as_ref()
            .is_some_and(|process| process.crashed.has_happened())
        {
            self.bury();
        }
        if self.process.is_none() {
            self.boot().await;
        }
        self.process
            .as_ref()
            .expect("it was just started")
            .service
            .clone()
    }

    /// What an application does: it calls, and calls again when it knows that it does not know.
    pub(crate) async fn call<T, F: Future<Output = Result<T>>>(
        &mut self,
        call: impl Fn(TaskSubmitService) -> F,
    ) -> T {
        loop {
            let service = self.live().await;
            let crashed = self.process.as_ref().expect("it lives").crashed.clone();
            tokio::select! {
                biased;
                () = crashed.happened() => {}
                result = call(service) => match result {
                    Ok(answer) => return answer,
                    Err(error) if error.is_transient() => self.sleep(millis(100)).await,
                    Err(error) => panic!("a foreign error: {error}"),
                }
            }
        }
    }

    /// Lets time pass in small steps, with a process that lives, until `is_reached`.
    pub(crate) async fn until(&mut self, what: &str, is_reached: impl AsyncFn(&World) -> bool) {
        let end = self.ground.clock.elapsed() + LIMIT;
        while !is_reached(self).await {
            assert!(
                self.ground.clock.elapsed() < end,
                "stalled: {what} did not come"
            );
            self.live().await;
            self.sleep(millis(50)).await;
        }
    }

    /// The state of the task in the store, as nobody's process sees it.
    pub(crate) async fn state(&self) -> Option<TaskState> {
        let task_type = TaskType::new(TYPE).expect("a valid name");
        let id = delayq_plugin::TaskId::new(ID).expect("a valid id");
        let found = self.ground.store.find(&task_type, &id).await;
        found
            .expect("the store itself is sound")
            .map(|task| task.state)
    }

    /// The orderly end of the process, and the start of the next one.
    pub(crate) async fn shut_down(&mut self, grace: Duration) {
        self.live().await;
        let Some(process) = self.process.take() else {
            return;
        };
        tokio::select! {
            biased;
            () = process.crashed.happened() => {}
            () = process.plugin.shutdown(grace) => {}
        }
        if process.crashed.has_happened() {
            self.crashes += 1;
        }
        self.ledger.crashed(self.number);
        // From here on it is gone, and whatever it left behind with it.
        process.crashed.happen();
    }
}
