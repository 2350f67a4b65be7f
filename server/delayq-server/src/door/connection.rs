//! One connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::Response;
use delayq_core::error::readable_tls;
use delayq_service::body::is_grpc_call;
use delayq_service::server_metric::CONNECTIONS;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tower::ServiceExt;
use tracing::debug;

use super::Door;
use super::activity::{Activity, Busy, BusyBody};
use super::written::Written;

/// The interval of pings on an HTTP/2 connection, and the time limit for their answers.
const PING: Duration = Duration::from_secs(20);

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Connection {
    door: Arc<Door>,
    peer: SocketAddr,
    /// The connection's share of the listener's limit, and its entry in the metric.
    _place: OwnedSemaphorePermit,
    _open: OpenConnection,
    activity: Activity,
}

/// Counts a connection in the metric while it exists.
#[derive(Debug)]
struct OpenConnection(&'static str);

impl OpenConnection {
    fn new(listener: &'static str) -> Self {
        metrics::gauge!(CONNECTIONS, "listener" => listener).increment(1);
        Self(listener)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        metrics::gauge!(CONNECTIONS, "listener" => self.0).decrement(1);
    }
}

impl Connection {
    pub(super) fn new(door: Arc<Door>, peer: SocketAddr, place: OwnedSemaphorePermit) -> Self {
        Self {
            _place: place,
            _open: OpenConnection::new(door.name),
            door,
            peer,
            activity: Activity::new(),
        }
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(self, stream: TcpStream) {
        // Sends small answers at once. Without this, HTTP/2 stalls for 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "cannot disable Nagle's algorithm for a connection");
        }
        let Some(tls) = &self.door.tls else {
            return self.drive(stream).await;
        };
        let handshake = async {
            // A load balancer that only checks the port sends nothing; this is not a failure.
            match stream.peek(&mut [0]).await? {
                0 => Ok(None),
                _ => tls.acceptor().accept(stream).await.map(Some),
            }
        };
        let handshake = tokio::time::timeout(self.door.bounds.header_timeout(), handshake);
        tokio::select! {
            done = handshake => match done {
                Ok(Ok(Some(stream))) => self.drive(stream).await,
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    let error = error.to_string();
                    tls.handshakes.failed(self.peer, &readable_tls(&error));
                }
                Err(_) => tls.handshakes.failed(self.peer, &"it took too long"),
            },
            () = self.door.stopping.ended() => {}
        }
    }

    async fn drive<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, stream: I) {
        let door = &*self.door;
        let peer = self.peer;
        let (of_requests, activity) = (Arc::clone(&self.door), self.activity.clone());
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let (door, busy) = (Arc::clone(&of_requests), activity.begin());
            async move { answer(&door, peer, request, busy).await }
        });
        let (builder, written) = (self.builder(), Written::default());
        let stream = TokioIo::new(written.of(stream));
        let mut connection = pin!(builder.serve_connection(stream, service));
        let idle_timeout = door.bounds.header_timeout();
        let mut idle = pin!(tokio::time::sleep(idle_timeout));
        let (mut stopping, mut cut) = (pin!(door.stopping.ended()), pin!(door.cut.cancelled()));
        let (mut is_stopping, mut is_closing) = (false, false);
        let mut waits_since = Instant::now();
        loop {
            tokio::select! {
                // The end of a long request counts before the time that passed during it.
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        debug!(error, %peer, "a connection ended with an error");
                    }
                    return;
                }
                () = stopping.as_mut(), if !is_stopping => {
                    is_stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                // Also applies to a client that sends too little to tell HTTP/1 from HTTP/2.
                () = idle.as_mut() => {
                    let now = Instant::now();
                    waits_since = waits_since.max(self.activity.idle_since());
                    if waits_since + idle_timeout > now {
                        idle.as_mut().reset(waits_since + idle_timeout);
                        continue;
                    }
                    waits_since = now;
                    idle.as_mut().reset(now + idle_timeout);
                    if written.is_read() {
                        continue;
                    }
                    if is_closing || !self.activity.is_used() {
                        debug!(%peer, "an idle connection is closed");
                        return;
                    }
                    // The client is told which of its requests still count, and has as long again
                    // to close the connection.
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = cut.as_mut() => return,
            }
        }
    }

    fn builder(&self) -> Builder<TokioExecutor> {
        let bounds = &self.door.bounds;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout())
            .max_buf_size(usize::try_from(bounds.max_header_bytes).unwrap_or(usize::MAX));
        // A flood of reset streams closes the connection; h2's limit is 20 pending resets.
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .max_concurrent_streams(bounds.max_streams)
            .max_header_list_size(bounds.max_header_bytes);
        builder
    }
}

/// Answers a request. What is counted of its body is held until the answer begins, or as long as a
/// handler reads the body.
async fn answer(
    door: &Door,
    peer: SocketAddr,
    request: Request<Incoming>,
    busy: Busy,
) -> Result<Response, Infallible> {
    let (mut head, body) = request.into_parts();
    let share = door.bodies.share();
    let is_grpc = is_grpc_call(head.uri.path(), &head.headers);
    let body = share.metered(Body::new(body), is_grpc, door.bounds.body_timeout());
    let client = door.proxies.client(peer.ip(), &head.headers);
    let client = if client == peer.ip().to_canonical() {
        peer
    } else {
        SocketAddr::new(client, 0)
    };
    head.extensions.insert(ConnectInfo(client));
    head.extensions.insert(Arc::clone(&share));
    let answered = door.router.clone().oneshot(Request::from_parts(head, body));
    let response = answered.await?;
    drop(share);
    Ok(response.map(|body| Body::new(BusyBody::new(body, busy))))
}
