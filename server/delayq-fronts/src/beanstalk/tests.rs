//! The protocol over sockets, against a server in memory.

mod client;
mod foreign;
#[cfg(unix)]
mod moved;
mod moves;
mod names;
mod noise;
mod replay;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;

use delayq_plugin::Store;
use delayq_plugin::store::MemoryStore;
use delayq_service::listener::listen;

use self::client::Client;
use super::{Listeners, serve};
use crate::tests::server::Server;

/// A server of the protocol; it ends with the test.
async fn start() -> SocketAddr {
    start_on(Arc::new(MemoryStore::default())).await
}

/// One more server of the protocol on a store.
async fn start_on(store: Arc<dyn Store>) -> SocketAddr {
    let server = Server::in_memory().await;
    let namespace = delayq_plugin::Namespace::default();
    server.app.spaces.offer(namespace, store).await;
    start_in(server).await
}

/// The protocol of a server.
async fn start_in(server: Server) -> SocketAddr {
    let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(server.app, Listeners::over(listener)));
    address
}
