//! Listening in a cluster, where each shard has a channel on its own node.

use std::sync::{Arc, Weak};
use std::time::Duration;

use delayq_core::{Operate, Result, TaskType};
use tokio::time::timeout;

use crate::connection::{Channel, Channels};
use crate::shard::context::Context;
use crate::shard::wakeup_hub::message;
use crate::store::RedisStore;

/// How often the list of types is read, to subscribe to all of them. A new type is noticed at once,
/// unless the message is lost.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// Listens to all types for as long as the store lives.
pub(crate) async fn keep_listening(store: Weak<RedisStore>, cx: Arc<Context>) {
    let hub = Arc::clone(&cx.hub);
    // The store's connections end with the context, so it must not be kept here.
    drop(cx);
    while let Some(store) = store.upgrade() {
        if let Err(error) = listen_to_all(&store).await {
            tracing::debug!(%error, "cannot read the types to listen to");
        }
        drop(store);
        // A message may name a type that is not known yet.
        let _ = timeout(LISTEN_AGAIN, hub.unknown.notified()).await;
    }
}

async fn listen_to_all(store: &RedisStore) -> Result<()> {
    let types = store.types().await?;
    store.shards.learn_all(&types).await?;
    let cx = store.context();
    cx.hub.set_heard(&types);
    cx.connections.listen_to(channels(store, cx, &types));
    Ok(())
}

/// The channel of the namespace, and those of every shard of these types.
fn channels(store: &RedisStore, cx: &Context, types: &[TaskType]) -> Channels {
    let mut channels = Channels::with_capacity(types.len() + 1);
    let own = Channel {
        slot: cx.keys.slot(),
        message: Vec::new(),
    };
    channels.insert(cx.keys.wake_channel(), own);
    for task_type in types {
        for shard in store.shards.known(task_type).all() {
            let channel = Channel {
                slot: shard.keys.slot,
                message: message(&shard.keys.bucket, "").into_bytes(),
            };
            channels.insert(shard.keys.wake_channel(), channel);
        }
    }
    channels
}
