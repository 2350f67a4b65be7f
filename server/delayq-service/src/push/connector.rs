//! Connections to targets. The address that was checked is the address that is dialled.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::Uri;
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{BoxError, Service};

use super::Guard;
use super::barred::Forbidden;

/// The time limit for making a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// The interval of keep-alive probes on a silent connection.
const KEEPALIVE: Duration = Duration::from_mins(1);

/// A client for HTTP/1.1 and HTTP/2.
pub(super) type HttpClient = Client<HttpsConnector<GuardedConnector>, Full<Bytes>>;
/// A client for HTTP/2 only.
pub(super) type GrpcClient = Client<HttpsConnector<GuardedConnector>, tonic::body::Body>;

/// Resolves names to allowed addresses.
#[derive(Clone, Debug)]
pub(super) struct GuardedResolver {
    guard: Arc<Guard>,
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let guard = Arc::clone(&self.guard);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed = guard.addresses(name.as_str(), found);
            allowed.map(Vec::into_iter).map_err(forbidden)
        })
    }
}

/// Connects to allowed addresses. A host that is an IP address bypasses the resolver, so it is
/// checked here.
#[derive(Clone, Debug)]
pub(super) struct GuardedConnector {
    inner: HttpConnector<GuardedResolver>,
    guard: Arc<Guard>,
}

impl GuardedConnector {
    pub(super) fn new(guard: &Arc<Guard>) -> Self {
        Self::within(guard, CONNECT_WITHIN)
    }

    /// A connector with another time limit for connections.
    pub(super) fn within(guard: &Arc<Guard>, limit: Duration) -> Self {
        let resolver = GuardedResolver {
            guard: Arc::clone(guard),
        };
        let mut inner = HttpConnector::new_with_resolver(resolver);
        inner.enforce_http(false);
        inner.set_nodelay(true);
        inner.set_connect_timeout(Some(limit));
        inner.set_keepalive(Some(KEEPALIVE));
        Self {
            inner,
            guard: Arc::clone(guard),
        }
    }

    fn check(&self, uri: &Uri) -> Result<(), String> {
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = host.parse::<IpAddr>() {
            self.guard.address(address)?;
        }
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        self.guard.port(port)
    }
}

impl Service<Uri> for GuardedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if let Err(reason) = self.check(&uri) {
            return Box::pin(async { Err(forbidden(reason).into()) });
        }
        let connecting = self.inner.call(uri);
        Box::pin(async move { Ok(connecting.await?) })
    }
}

fn forbidden(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, Forbidden(reason))
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::super::PushConfig;
    use super::*;

    #[tokio::test]
    async fn a_name_that_leads_to_this_host_is_not_dialled() {
        let guard = Arc::new(Guard::new(&PushConfig::default()).unwrap());
        let mut connector = GuardedConnector::new(&guard);
        // Of the name only: the URL was checked when it was stored, and its address may be another
        // one since.
        for uri in [
            "http://localhost:8080/",
            "http://127.0.0.1:8080/",
            "http://[::1]:8080/",
            "http://[::ffff:127.0.0.1]:8080/",
            "http://1.1.1.1:22/",
        ] {
            let refused = connector.call(Uri::from_str(uri).unwrap()).await;
            let error = refused.unwrap_err();
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            let is_refused = text.contains("is not called") || text.contains("is not for targets");
            assert!(is_refused, "{uri}: {text}");
        }
    }
}
