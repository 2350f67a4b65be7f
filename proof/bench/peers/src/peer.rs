//! What a case asks of a peer.

use std::sync::Arc;

use async_trait::async_trait;

use crate::Failure;
use crate::board::Board;
use crate::task::Task;

/// One peer on its server.
#[async_trait]
pub(crate) trait Peer: Send + Sync {
    /// Whether one call takes several delayed tasks.
    fn has_bulk(&self) -> bool {
        true
    }

    /// Sends several tasks in one call.
    async fn submit_all(&self, tasks: Vec<Task>) -> Result<(), Failure>;

    /// Sends one task.
    async fn submit(&self, task: Task) -> Result<(), Failure>;

    /// Starts a worker that only tells the board which task it was given. It runs until the program
    /// ends.
    async fn work(&self, board: Arc<Board>) -> Result<(), Failure>;

    /// How many of `count` tasks are not settled yet.
    async fn unsettled(&self, count: usize) -> Result<usize, Failure>;
}
