//! Questions beside the claims of a split type, to those of its partitions that are in trouble.

use std::sync::Arc;
use std::time::Instant;

use super::RedisStore;
use super::claim::Visited;
use super::keys::Partition;
use super::round::DRAINED;
use crate::fleet::FleetLimits;
use crate::store::ClaimRequest;

impl RedisStore {
    /// Asks a partition in trouble beside the claims whether it is back. It takes nothing, and gives back what lost
    /// claims took. The whole timeout is waited for an answer: one that was sent to a server that hangs comes as soon as
    /// that goes on, and a connection on which none comes is given up for a new one.
    pub(super) fn ask_beside(&self, part: Arc<Partition>, request: &ClaimRequest) {
        let sent = Instant::now();
        let look = ClaimRequest {
            limit: 0,
            fleet: FleetLimits::NONE,
            ..request.clone()
        };
        let Some(store) = self.own.upgrade() else {
            // Nobody claims from it any more.
            return;
        };
        self.client.spawn(async move {
            let visits = &store.scope.visits;
            match store.claim_part(&part, &look, false).await {
                Ok(Visited { claimed, split }) => {
                    visits.heard(&part, sent, &claimed);
                    if split == DRAINED {
                        visits.drained(&part);
                    }
                    store.scope.wake_type(&part.task_type);
                }
                Err(error) => {
                    visits.not_heard(&part, sent);
                    // Who is asked next is known again, and its handlers do not look before their next poll else.
                    store.scope.wake_type(&part.task_type);
                    tracing::debug!(task_type = %part.task_type, partition = part.name, %error,
                        "a partition does not answer yet");
                }
            }
        });
    }
}
