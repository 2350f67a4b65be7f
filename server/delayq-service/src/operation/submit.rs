//! Submission of tasks, for all entries.

use delayq_core::Limits;
use delayq_core::job::{check_content, check_headers, check_times, with_kept_names};
use delayq_plugin::store::NewTask;
use delayq_plugin::{DelayQueueJob, Error, Receipt};

use crate::access::Scope;
use crate::context::Context;
use crate::limits::Bounded;
use crate::problem::Problem;
use crate::push::refuse_reserved;

/// The result of submitting one task.
pub type Submitted = Result<Receipt, Problem>;

/// A task that a caller submits, with an optional target.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The task, without its target.
    pub task: NewTask,
    /// The task's own target, as JSON.
    pub target: Option<String>,
    /// True if the task was made from a job, whose content was checked then.
    is_prepared: bool,
}

impl From<NewTask> for Submission {
    fn from(task: NewTask) -> Self {
        Self {
            task,
            target: None,
            is_prepared: false,
        }
    }
}

impl Submission {
    /// Makes a submission from a job.
    ///
    /// # Errors
    /// `forbidden`, and `bad-request` or `limit-exceeded` for a job that no store accepts.
    pub async fn of_job(context: &Context, job: DelayQueueJob) -> Result<Self, Problem> {
        // A caller without a right to the type must learn nothing about the job.
        context.caller.require_type(job.task_type())?;
        let task = context.space.tasks.prepare(job).await?;
        Ok(Self {
            task,
            target: None,
            is_prepared: true,
        })
    }

    /// Sets the task's own target.
    #[must_use]
    pub fn to(mut self, target: Option<String>) -> Self {
        self.target = target;
        self
    }

    /// Refuses a task that the caller has no right to.
    fn authorize(&self, context: &Context) -> Result<(), Problem> {
        let Context { caller, space, .. } = context;
        caller.require_type(self.task.task_type.as_str())?;
        if self.target.is_none() || space.push.is_open() || caller.token.has(Scope::Operate) {
            return Ok(());
        }
        let text = "a target of its own takes a token of scope operate as well: or set \
                    push.allow_task_targets = true";
        Err(Problem::forbidden(text))
    }

    /// The task with the names of its headers as they are kept. Refuses one that is too large, has
    /// times beyond the limits, or has headers that cannot be, or are reserved for the server.
    fn checked(mut self, context: &Context) -> Result<Self, Problem> {
        context.check_message(&self.task.message)?;
        // An application that uses the server as its store checks its own limits.
        if context.checks_times && !context.is_store_of_caller {
            let now = context.space.tasks.clock().now();
            check_times(&self.task, &Limits::default(), now)?;
        }
        // A store that is copied here holds what it holds.
        if !self.is_prepared && !context.is_store_of_caller {
            self.task.headers = with_kept_names(self.task.headers)?;
            check_content(&self.task.headers, &self.task.message)?;
        }
        refuse_reserved(self.task.headers.keys())?;
        check_headers(&self.task.headers)?;
        Ok(self)
    }

    /// Adds the headers of the task's target.
    async fn with_target(mut self, context: &Context) -> Result<Self, Problem> {
        if let Some(target) = &self.target {
            let (push, named) = (&context.space.push, (&self.task.task_type, &self.task.id));
            let headers = push.headers_of_own(named, &self.task.message, target);
            self.task.headers.extend(headers.await?);
            check_headers(&self.task.headers)?;
        }
        Ok(self)
    }
}

/// Tasks of one request.
#[derive(Clone, Debug)]
pub struct Batch {
    tasks: Vec<Submission>,
    paid: usize,
    is_whole: bool,
}

impl Batch {
    /// A batch whose request has paid for one task. A refused task does not stop the others.
    pub fn new(tasks: Vec<Submission>) -> Self {
        Self {
            tasks,
            paid: 1,
            is_whole: false,
        }
    }

    /// Sets the number of tasks that the request has already paid for.
    #[must_use]
    pub fn paid(mut self, tasks: usize) -> Self {
        self.paid = tasks;
        self
    }

    /// Refuses all tasks if one is refused.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.is_whole = true;
        self
    }
}

/// Submits one task.
///
/// # Errors
/// Those of [`submit`].
pub async fn submit_one(context: &Context, task: Submission) -> Submitted {
    let submitted = submit(context, Batch::new(vec![task])).await?.pop();
    submitted.unwrap_or_else(|| Err(unanswered()))
}

/// Submits tasks and returns one result for each, in order. Waits until the rate of the token and
/// the namespace allows the tasks that are not yet paid for.
///
/// # Errors
/// Before anything is stored: `unauthorized` if the token has ended, `forbidden` if it has no right
/// to one of the tasks, and in a whole batch any other refusal of a task.
pub async fn submit(context: &Context, batch: Batch) -> Result<Vec<Submitted>, Problem> {
    let Batch {
        tasks,
        paid,
        is_whole,
    } = batch;
    for task in &tasks {
        task.authorize(context)?;
    }
    let mut charge = match tasks.len().saturating_sub(paid) {
        0 => None,
        further => Some(context.throttle(further).await),
    };
    // The request may have waited for its body or for its rate.
    context.recheck()?;
    let checked = tasks.into_iter().map(|task| task.checked(context));
    let mut tasks: Vec<_> = checked.collect();
    if is_whole {
        let all = tasks.into_iter().collect::<Result<Vec<_>, Problem>>()?;
        if context.limits_pending() {
            Box::pin(reserve_room(context, all.len() as u64)).await?;
        }
        tasks = all.into_iter().map(Ok).collect();
    } else if context.limits_pending() {
        Box::pin(reserve_each(context, &mut tasks)).await;
    }
    let mut ready = Vec::with_capacity(tasks.len());
    for task in tasks {
        ready.push(match task {
            // Boxed, as few tasks have one: a large future is moved with every request.
            Ok(task) if task.target.is_some() => Box::pin(task.with_target(context)).await,
            Ok(task) => Ok(task),
            Err(problem) => Err(problem),
        });
    }
    let submitted = store(context, ready).await;
    if let Some(charge) = &mut charge {
        let failed = submitted.iter().filter_map(|one| one.as_ref().err());
        let failed = failed.filter(|problem| problem.status().is_server_error());
        context.refund(charge, failed.count());
    }
    Ok(submitted)
}

/// Reserves room for the tasks and refuses those without room.
async fn reserve_each(context: &Context, tasks: &mut [Result<Submission, Problem>]) {
    let count = tasks.iter().filter(|task| task.is_ok()).count() as u64;
    if reserve_room(context, count).await.is_ok() {
        return;
    }
    for one in tasks {
        if let Ok(Submission { task, .. }) = one
            && let Err(problem) = reserve_one(context, task).await
        {
            *one = Err(problem);
        }
    }
}

/// Reserves room for one task. A repeated submit of an unfinished task needs no room, so it is
/// accepted even if there is none.
async fn reserve_one(context: &Context, task: &NewTask) -> Result<(), Problem> {
    let Err(full) = reserve_room(context, 1).await else {
        return Ok(());
    };
    let (task_type, id) = (&task.task_type, &task.id);
    let known = context.store().find(task_type, id).await?;
    known.filter(|task| !task.state.is_ended()).ok_or(full)?;
    Ok(())
}

/// Reserves room for `tasks` new tasks within the limits of the token and the namespace.
pub(super) async fn reserve_room(context: &Context, tasks: u64) -> Result<(), Problem> {
    let (space, token) = (&context.space, &context.caller.token);
    if let Some(max) = token.max_pending {
        let bounded = Bounded::Token {
            id: &token.id,
            covers: &|task_type| token.covers(task_type),
        };
        space
            .pending
            .admit(&space.tasks, bounded, tasks, max)
            .await?;
    }
    match space.limits.max_pending {
        Some(max) => {
            let bounded = Bounded::Namespace;
            space.pending.admit(&space.tasks, bounded, tasks, max).await
        }
        None => Ok(()),
    }
}

/// Stores tasks. Tasks with their own target go through the store that keeps targets.
async fn store(context: &Context, tasks: Vec<Result<Submission, Problem>>) -> Vec<Submitted> {
    let space = &context.space;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut order = Vec::with_capacity(tasks.len());
    for task in tasks {
        order.push(match task {
            Ok(Submission { task, target, .. }) => {
                let has_target = target.is_some();
                if has_target {
                    with.push(task);
                } else {
                    without.push(task);
                }
                Ok(has_target)
            }
            Err(problem) => Err(problem),
        });
    }
    let mut without = context.tasks().submit(without).await.into_iter();
    let with = if with.is_empty() {
        Vec::new()
    } else {
        space.within.submit(with).await
    };
    let mut with = with.into_iter();
    let submitted = order.into_iter().map(|has_target| {
        let next = if has_target? {
            with.next()
        } else {
            without.next()
        };
        Ok(next.ok_or_else(unanswered)??)
    });
    submitted.collect()
}

fn unanswered() -> Problem {
    Error::Closed("the store").into()
}
