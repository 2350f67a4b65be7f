//! One step of shipping.

use delayq_core::history::{Life, MAX_ENDS};
use delayq_core::{Result, Store};
use delayq_history::HistoryStore;

/// What a step has shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shipped {
    /// Records that waited.
    pub(super) taken: usize,
    /// Those that the history did not have.
    pub(super) new: u64,
}

/// Records what waits first, and removes it from the store once it is stored. A crash in between
/// ships it once more, which changes nothing.
pub(super) async fn ship(store: &dyn Store, history: &HistoryStore) -> Result<Shipped> {
    let waiting = store.ends(MAX_ENDS).await?.into_iter();
    let (positions, lives): (Vec<_>, Vec<Life>) =
        waiting.map(|end| (end.position, end.life)).unzip();
    let taken = lives.len();
    if taken == 0 {
        return Ok(Shipped::default());
    }
    let new = history.record(&lives).await?;
    store.remove_ends(&positions).await?;
    Ok(Shipped { taken, new })
}
