//! Why a plugin does not start.

use delayq_core::registry::MissingComponent;

/// Why [`start`](crate::DelayQueuePluginBuilder::start) failed. Nothing runs then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be opened, reached or trusted.
    #[error(transparent)]
    Store(#[from] delayq_core::Error),
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
    /// A worker option that cannot be used.
    #[error("worker {name:?} of type {task_type}: {reason}")]
    InvalidOption {
        /// The type or pattern.
        task_type: String,
        /// The worker.
        name: String,
        /// What is wrong and what to write.
        reason: &'static str,
    },
    /// A worker asks for something that was not added.
    #[error("worker {name:?} of type {task_type}: {missing}")]
    MissingComponent {
        /// The type or pattern.
        task_type: String,
        /// The worker.
        name: String,
        /// What is missing.
        missing: MissingComponent,
    },
    /// `start` was called outside of a tokio runtime.
    #[error("start() must be called within a tokio runtime, for example under #[tokio::main]")]
    NoRuntime,
    /// The system refused another thread.
    #[error("cannot start the scheduler thread {name:?}: {source}; .threads(n) shares n of them")]
    Thread {
        /// The thread's name.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
}
