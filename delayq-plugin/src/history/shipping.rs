//! One step of shipping.

use delayq_core::history::{Life, MAX_ENDS};
use delayq_core::{Error, Result, Store};
use delayq_history::HistoryStore;
use tracing::error;

/// What a step has shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shipped {
    /// Records that waited.
    pub(super) taken: usize,
    /// The size of their messages.
    pub(super) bytes: usize,
    /// Those that the history did not have.
    pub(super) new: u64,
    /// Those that the history takes in no way. They are dropped.
    pub(super) refused: u64,
}

/// Records what waits first, and removes it from the store once it is stored. A crash in between
/// ships it once more, which changes nothing.
pub(super) async fn ship(store: &dyn Store, history: &HistoryStore) -> Result<Shipped> {
    let waiting = store.ends(MAX_ENDS).await?.into_iter();
    let (positions, lives): (Vec<_>, Vec<Life>) =
        waiting.map(|end| (end.position, end.life)).unzip();
    let taken = lives.len();
    let messages = lives.iter().filter_map(|life| life.message.as_ref());
    let bytes = messages.map(Vec::len).sum();
    if taken == 0 {
        return Ok(Shipped::default());
    }
    let (new, refused) = match history.record(&lives).await {
        Err(Error::InvalidInput { .. }) => one_by_one(history, &lives).await?,
        new => (new?, 0),
    };
    store.remove_ends(&positions).await?;
    Ok(Shipped {
        taken,
        bytes,
        new,
        refused,
    })
}

/// Records lives alone, so that one that the history refuses keeps no other back. Returns the
/// numbers of those that it did not have, and of those that it refuses.
async fn one_by_one(history: &HistoryStore, lives: &[Life]) -> Result<(u64, u64)> {
    let (mut new, mut refused) = (0, 0);
    for life in lives {
        match history.record(std::slice::from_ref(life)).await {
            Err(Error::InvalidInput { reason, .. }) => {
                refused += 1;
                error!(history = history.place(), task_type = %life.task_type, id = %life.id,
                    %reason, "the history refuses the record of a task: it is dropped");
            }
            added => new += added?,
        }
    }
    Ok((new, refused))
}
