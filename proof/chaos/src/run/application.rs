//! What chaos is done to: somebody's workers, and the tasks that they are sent.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use delayq_plugin::{
    DelayQueueJob, DelayQueuePluginBuilder, Result, Store, TaskSubmitService, When, millis,
};

use crate::record::{RecordedStore, Recorder};

/// How far the due time of a task is moved at most.
const MAX_MOVE_MS: u64 = 1_500;

/// Why an application cannot go on.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// What every process of a run shares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Place {
    /// The store, which records what is asked of it: for workers that send tasks themselves.
    pub store: Arc<dyn Store>,
    /// The folder of the run: for files of your own.
    pub folder: PathBuf,
}

impl Place {
    pub(crate) fn new(store: Arc<dyn Store>, recorder: &Recorder, folder: &Path) -> Self {
        Self {
            store: Arc::new(RecordedStore::new(store, recorder.clone())),
            folder: folder.to_owned(),
        }
    }
}

/// Your application, as [`run`](super::run()) needs it. Its methods may be written as `async fn`.
///
/// The program starts itself again for each process of the run, so each has an application of its
/// own: what they share is in the [`Place`].
pub trait Application: Send + Sync + 'static {
    /// The plugin of a worker process, with its components and workers, not yet started. The run
    /// adds the store, has every worker recorded, and sets the length of all locks; all else stays
    /// as it is.
    ///
    /// # Errors
    /// What is not there yet: it is called again.
    fn plugin(
        &self,
        place: &Place,
    ) -> impl Future<Output = Result<DelayQueuePluginBuilder, AnyError>> + Send;

    /// A task to send. `number` is another one for each task of the run, and the only source of
    /// chance that repeats with the seed. Delays of up to a few seconds fit a run.
    ///
    /// # Errors
    /// A message without a JSON form; the task is left out.
    fn job(&self, number: u64) -> Result<DelayQueueJob>;

    /// Changes a task sent a short time ago, as your application would. By default it is cancelled
    /// or moved.
    ///
    /// # Errors
    /// As of the call that was made; it is in the record, and nobody repeats it.
    fn change(
        &self,
        tasks: &TaskSubmitService,
        sent: Sent<'_>,
        number: u64,
    ) -> impl Future<Output = Result<()>> + Send {
        async move {
            if number.is_multiple_of(2) {
                let _ = tasks.cancel(sent.task_type, sent.id).await?;
            } else {
                let when = When::After(millis(number % MAX_MOVE_MS));
                let _ = tasks.reschedule(sent.task_type, sent.id, when).await?;
            }
            Ok(())
        }
    }

    /// Looks at your own data, once the last task has ended and no process runs any more. The
    /// record is whole by then, and says where the store has each task: see
    /// [`History::read`](crate::history::History::read).
    ///
    /// # Errors
    /// What is wrong with it: the run is then broken, whatever the record says.
    fn verify(&self, _place: &Place) -> impl Future<Output = Result<(), AnyError>> + Send {
        async { Ok(()) }
    }
}

/// A task that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<'a> {
    /// Its type.
    pub task_type: &'a str,
    /// Its id.
    pub id: &'a str,
}
