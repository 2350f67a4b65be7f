//! Reasons why a plugin does not start.

use std::fmt;

use delayq_core::registry::MissingComponent;

use crate::config::ConfigError;

/// The reason why [`start`](crate::DelayQueuePluginBuilder::start) failed. Nothing is running then.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be opened, reached or trusted.
    #[error(transparent)]
    Store(#[from] delayq_core::Error),
    /// The configuration does not fit the workers.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No worker was linked in or added.
    #[error(
        "no worker is registered: annotate one with #[task_worker(type = \"..\")], or add one with \
         .worker(..). The linker drops a crate that nobody refers to: `use my_workers as _;` keeps it. \
         To send tasks only, use TaskSubmitService::connect"
    )]
    NoWorkers,
    /// A type named in `expect_types` has no worker.
    #[error(
        "no worker serves the expected types {missing}; registered: {registered}. \
         Is there a #[task_worker(type = \"..\")] above each of these workers? The linker drops a \
         crate that nobody refers to: `use my_workers as _;` keeps it"
    )]
    MissingTypes {
        /// The expected types without a worker.
        missing: String,
        /// The registered types and patterns.
        registered: String,
    },
    /// A pattern given to `only` matches no worker.
    #[error("only({missing}): no worker serves that; registered: {registered}")]
    OnlyUnserved {
        /// The patterns without a worker.
        missing: String,
        /// The registered types and patterns.
        registered: String,
    },
    /// Two workers of one type have the same name, so that retries could not tell them apart.
    #[error(
        "two workers of type {task_type} are named {name:?}: give one another name = \"..\" \
         in its #[task_worker]; .worker(..) takes the name of the Rust type"
    )]
    DuplicateWorker {
        /// The type or pattern.
        task_type: String,
        /// The name.
        name: String,
    },
    /// A worker option that is not valid.
    #[error("worker {name:?} of type {task_type}: {reason}")]
    InvalidOption {
        /// The type or pattern.
        task_type: String,
        /// The worker.
        name: String,
        /// The mistake, and what to write.
        reason: &'static str,
    },
    /// An invalid pool: declared twice, without workers, or named by a worker but not declared.
    #[error("pool {pool:?}: {reason}")]
    InvalidPool {
        /// The pool.
        pool: String,
        /// The mistake, and what to write.
        reason: String,
    },
    /// A pattern given to `weight` matches no worker that has a pool.
    #[error(
        "weight({pattern:?}, ..): no worker with a pool serves that; name one in its          #[task_worker(.., pool = \"..\")]; registered: {registered}"
    )]
    WeightUnserved {
        /// The pattern.
        pattern: String,
        /// The registered types and patterns.
        registered: String,
    },
    /// A worker asks for something that was not added.
    #[error("worker {name:?} of type {task_type}: {missing}")]
    MissingComponent {
        /// The type or pattern.
        task_type: String,
        /// The worker.
        name: String,
        /// The missing component.
        missing: MissingComponent,
    },
    /// Options that only apply to a store which the plugin opens itself.
    #[error(
        "{options}: an open store was given with .store(..), which has its own; set them where it is \
         opened, or give .url(..) instead of .store(..)"
    )]
    OptionsOfStore {
        /// The options, by the names of their methods.
        options: String,
    },
    /// A setting of the builder that is out of range.
    #[error("{option}: use {reason}")]
    InvalidSetting {
        /// The method.
        option: &'static str,
        /// The range.
        reason: &'static str,
    },
    /// Two components of one type: a worker could get only one of them.
    #[error(
        "two components of type {type_name}: wrap each in a type of its own, such as \
         struct Archive(Pool)"
    )]
    DuplicateComponent {
        /// The type.
        type_name: &'static str,
    },
    /// An invalid recurring task.
    #[error("recurring task of type {task_type}: {reason}")]
    InvalidRecurring {
        /// The type.
        task_type: String,
        /// The mistake, and what to write.
        reason: String,
    },
    /// `start` was called outside a tokio runtime.
    #[error("start() must be called within a tokio runtime, for example under #[tokio::main]")]
    NoRuntime,
    /// The operating system refused to create a thread.
    #[error("cannot start the scheduler thread {name:?}: {source}; .threads(n) shares n of them")]
    Thread {
        /// The thread's name.
        name: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The same text as `Display`, because a `main` that returns an error prints it with `Debug`.
impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
