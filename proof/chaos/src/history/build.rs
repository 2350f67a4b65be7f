//! Folds events into a history.

use std::collections::{BTreeMap, HashMap};

use super::{FaultSpan, History, NEVER, Process, Row, Step, Stored};
use crate::event::{Event, StoredTask, What};

mod call;
mod fault;
mod stall;

use stall::{Stall, Usage};

/// Takes events in, those of one source in order, and gives the history.
#[derive(Debug, Default)]
pub struct HistoryBuilder {
    history: History,
    tasks: HashMap<String, u32>,
    workers: HashMap<String, u16>,
    sources: HashMap<String, Source>,
    faults: BTreeMap<u64, FaultSpan>,
    stalls: Vec<Stall>,
    /// From when to when the disk was silent.
    disk_stalls: Vec<(u64, u64)>,
    usage: Vec<Usage>,
}

/// One file.
#[derive(Debug, Default)]
struct Source {
    process: u16,
    /// Calls that have been invoked and not answered.
    pending: HashMap<u64, (u64, What)>,
}

/// When and by whom: what all rows of a call share.
#[derive(Clone, Copy, Debug)]
struct Frame {
    process: u16,
    from: u64,
    to: u64,
    /// When it was answered or failed; `NEVER`: neither.
    over: u64,
}

impl Frame {
    /// What has no known outcome may still take effect at any time.
    fn open_if(self, in_doubt: bool) -> Self {
        let to = if in_doubt { NEVER } else { self.to };
        Self { to, ..self }
    }
}

impl HistoryBuilder {
    /// Takes in the next event of `source`.
    pub fn add(&mut self, source: &str, event: Event) {
        let at = event.at_ns;
        match event.what {
            What::Up {
                name,
                incarnation,
                namespace,
                ..
            } => self.up(
                source,
                Process {
                    name,
                    incarnation,
                    namespace,
                    up_ns: at,
                    last_ns: at,
                    is_down: false,
                },
            ),
            What::SubmitInvoked { call, .. }
            | What::ChangeInvoked { call, .. }
            | What::DeadInvoked { call, .. }
            | What::TypeInvoked { call, .. }
            | What::ClaimInvoked { call, .. }
            | What::SettleInvoked { call, .. }
            | What::ExtendInvoked { call, .. } => {
                let pending = &mut self.source(source).pending;
                pending.insert(call, (at, event.what));
            }
            What::SubmitAnswered { call, .. }
            | What::CancelAnswered { call, .. }
            | What::ChangeAnswered { call, .. }
            | What::DeadAnswered { call, .. }
            | What::TypeAnswered { call, .. }
            | What::ClaimAnswered { call, .. }
            | What::SettleAnswered { call, .. }
            | What::ExtendAnswered { call, .. }
            | What::Failed { call, .. } => self.answer(source, call, at, event.what),
            what => self.moment(source, at, what),
        }
        self.heard(source, at);
    }

    /// The number of the task called `name`, a new one if need be.
    pub fn task(&mut self, name: &str) -> u32 {
        if let Some(task) = self.tasks.get(name) {
            return *task;
        }
        let task = u32::try_from(self.history.tasks.len()).unwrap_or(u32::MAX);
        self.history.tasks.push(name.to_owned());
        self.tasks.insert(name.to_owned(), task);
        task
    }

    /// Takes in a row that somebody has made without events.
    pub fn push(&mut self, row: Row) {
        self.history.rows.push(row);
    }

    /// The history of everything taken in. Calls without an answer become ones whose answer is
    /// unknown.
    #[must_use]
    pub fn finish(mut self) -> History {
        for (_, source) in std::mem::take(&mut self.sources) {
            self.cut_off(source);
        }
        self.find_shortages();
        let mut history = self.history;
        history.faults = self.faults.into_values().collect();
        history.faults.sort_by_key(|fault| fault.begun_ns);
        history.clock.sort();
        history.type_calls.sort_by_key(|call| call.from);
        history.rows.sort_by_key(|row| (row.task, row.from));
        history.stored.resize(history.tasks.len(), None);
        let mut end = 0;
        for task in 0..history.tasks.len() {
            let begin = end;
            let rest = history.rows.get(begin..).unwrap_or_default();
            end += rest.partition_point(|row| row.task as usize <= task);
            history.ranges.push(begin..end);
        }
        history
    }

    /// A process has written something.
    fn heard(&mut self, source: &str, at: u64) {
        let process = usize::from(self.source(source).process);
        if let Some(process) = self.history.processes.get_mut(process) {
            process.last_ns = process.last_ns.max(at);
        }
    }

    fn source(&mut self, source: &str) -> &mut Source {
        if !self.sources.contains_key(source) {
            let anybody = Process {
                name: source.to_owned(),
                ..Process::default()
            };
            let process = self.process(anybody);
            let new = Source {
                process,
                ..Source::default()
            };
            self.sources.insert(source.to_owned(), new);
        }
        self.sources.entry(source.to_owned()).or_default()
    }

    fn process(&mut self, process: Process) -> u16 {
        let number = u16::try_from(self.history.processes.len()).unwrap_or(u16::MAX);
        self.history.processes.push(process);
        number
    }

    fn up(&mut self, source: &str, process: Process) {
        if let Some(before) = self.sources.remove(source) {
            self.cut_off(before);
        }
        let process = self.process(process);
        let new = Source {
            process,
            ..Source::default()
        };
        self.sources.insert(source.to_owned(), new);
    }

    fn cut_off(&mut self, source: Source) {
        for (call, (from, invoked)) in source.pending {
            let frame = Frame {
                process: source.process,
                from,
                to: NEVER,
                over: NEVER,
            };
            let certain = false;
            let error = String::new();
            let failed = What::Failed {
                call,
                certain,
                error,
            };
            self.joined(frame, invoked, failed);
        }
    }

    fn answer(&mut self, source: &str, call: u64, at: u64, answered: What) {
        let source = self.source(source);
        let process = source.process;
        let Some((from, invoked)) = source.pending.remove(&call) else {
            return;
        };
        let in_doubt = matches!(answered, What::Failed { certain: false, .. });
        let to = if in_doubt { NEVER } else { at };
        let frame = Frame {
            process,
            from,
            to,
            over: at,
        };
        self.joined(frame, invoked, answered);
    }

    fn row(&mut self, frame: Frame, task: &str, step: Step) {
        let task = self.task(task);
        self.push(Row {
            task,
            process: frame.process,
            from: frame.from,
            to: frame.to,
            step,
        });
    }

    /// What is no call.
    fn moment(&mut self, source: &str, at: u64, what: What) {
        let frame = Frame {
            process: self.source(source).process,
            from: at,
            to: at,
            over: at,
        };
        match what {
            What::Down => {
                let processes = &mut self.history.processes;
                if let Some(process) = processes.get_mut(usize::from(frame.process)) {
                    process.is_down = true;
                }
            }
            What::Clock { real_ns, spread_ns } => self.history.clock.add(at, real_ns, spread_ns),
            What::Stalled { since_ns } => self.stalled(Some(frame.process), (since_ns, at)),
            What::StoreStalled { since_ns } => self.stalled(None, (since_ns, at)),
            What::DiskStalled { since_ns } => self.disk_stalls.push((since_ns, at)),
            What::Usage {
                since_ns,
                processor_ns,
                written_bytes,
            } => self.usage.push(Usage {
                from: since_ns,
                to: at,
                processor_ns,
                written_bytes,
            }),
            What::Plan(plan) => self.history.plan = Some(plan),
            What::AtMostOnce { task_type } => {
                self.history.at_most_once.insert(task_type);
            }
            What::Fault { .. } => self.fault(at, what),
            What::FailedOver => self.history.fail_overs.push(at),
            What::Stored(task) => self.stored(&task),
            What::Audited {
                task_type,
                problems,
            } => {
                let problems = problems
                    .into_iter()
                    .map(|(id, what)| (task_type.clone(), id, what));
                self.history.problems.extend(problems);
            }
            What::Drained { left } => *self.history.left.get_or_insert(0) += left,
            What::Dumped { store_now } => self.history.dumped = Some(store_now),
            what => self.work(frame, what),
        }
    }

    /// What workers and the effect log write.
    fn work(&mut self, frame: Frame, what: What) {
        let (task, step) = match what {
            What::WorkerStart {
                task,
                worker,
                serves,
                attempt,
                fence,
                due,
                digest,
                headers,
            } => {
                let step = Step::Start {
                    worker: self.worker(worker),
                    right_type: is_served(&task, &serves),
                    attempt,
                    fence,
                    due,
                    digest,
                    headers: short(headers),
                };
                (task, step)
            }
            What::WorkerEnd {
                task,
                worker,
                fence,
                end,
                told,
            } => {
                let worker = self.worker(worker);
                let step = Step::End {
                    worker,
                    fence,
                    end,
                    told,
                };
                (task, step)
            }
            What::EffectAccepted { task, fence } => (task, Step::EffectAccepted { fence }),
            What::EffectRefused { task, fence } => (task, Step::EffectRefused { fence }),
            What::EffectBegun {
                task,
                fence,
                others,
            } => (task, Step::EffectBegun { fence, others }),
            What::EffectEnded { task, fence } => (task, Step::EffectEnded { fence }),
            _ => return,
        };
        self.row(frame, &task, step);
    }

    fn worker(&mut self, name: String) -> u16 {
        let next = u16::try_from(self.workers.len()).unwrap_or(u16::MAX);
        *self.workers.entry(name).or_insert(next)
    }

    fn stored(&mut self, task: &StoredTask) {
        let number = self.task(&task.task) as usize;
        if self.history.stored.len() <= number {
            self.history.stored.resize(number + 1, None);
        }
        if let Some(place) = self.history.stored.get_mut(number) {
            *place = Some(Stored {
                state: task.state,
                at: task.at,
                attempt: task.attempt,
                trail: task.trail,
            });
        }
    }
}

/// As much of a digest of headers as a row has room for; 0 without any.
fn short(headers: Option<u64>) -> u32 {
    headers.map_or(0, |digest| u32::try_from(digest >> 32).unwrap_or(0).max(1))
}

/// Whether a worker of the type or pattern `serves` is the right one for `task`.
fn is_served(task: &str, serves: &str) -> bool {
    let task_type = task.split_once('/').map_or(task, |(name, _)| name);
    match serves.strip_suffix('*') {
        Some(beginning) => task_type.starts_with(beginning),
        None => serves.is_empty() || serves == task_type,
    }
}
