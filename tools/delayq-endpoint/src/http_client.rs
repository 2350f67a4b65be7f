//! A small HTTP client, for registries and servers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use delayq_core::error::readable_tls;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// How long a request may take.
const WITHIN: Duration = Duration::from_secs(10);
/// Most bytes of an answer: a registry with some ten thousand instances.
const MAX_BYTES: usize = 64 << 20;

/// A client whose connections are shared by its clones.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl HttpClient {
    pub(crate) fn new() -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = rustls::ClientConfig::builder_with_provider(provider);
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = match versions.with_safe_default_protocol_versions() {
            Ok(versions) => versions.with_root_certificates(roots).with_no_client_auth(),
            // The versions of ring are those of rustls: this is for a build that mixes others.
            Err(_) => rustls::ClientConfig::builder()
                .with_root_certificates(roots)
                .with_no_client_auth(),
        };
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls);
        let connector = connector.https_or_http().enable_http1().build();
        Self(Client::builder(TokioExecutor::new()).build(connector))
    }

    /// Makes one request. The error is for people.
    pub(crate) async fn ask(&self, asked: Asked<'_>) -> Result<Answered, String> {
        let Asked {
            method,
            url,
            headers,
            body,
        } = asked;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = url.parse().map_err(|error| format!("{url}: {error}"))?;
        *request.headers_mut() = headers;
        let answering = async {
            let response = self
                .0
                .request(request)
                .await
                .map_err(|error| text(&error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MAX_BYTES).collect().await;
            let body = body.map_err(|error| error.to_string())?;
            Ok::<_, String>(Answered {
                status: head.status,
                body: body.to_bytes().to_vec(),
            })
        };
        match tokio::time::timeout(WITHIN, answering).await {
            Ok(answered) => answered,
            Err(_) => Err(format!("no answer within {WITHIN:?}")),
        }
    }
}

/// An error with its causes.
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    readable_tls(&text).into_owned()
}
