//! The courier pushes tasks to targets, over connections shared by all namespaces of a server.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use delayq_core::reply::{DEFAULT_REPLY_RETENTION, MAX_REPLY_RETENTION};
use delayq_plugin::{TaskError, TaskResult};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tracing::{error, warn};

use super::connector::{GrpcClient, GuardedConnector, HttpClient};
use super::parcel::Parcel;
use super::services::{self, Services};
use super::{Guard, PushConfig, Target, grpc, http};
use crate::discovery::{Discovery, Instance};
use crate::network::BadNetwork;

/// The number of idle connections kept for each host.
const MAX_IDLE: usize = 64;
/// How long an idle connection is kept; shorter than most servers keep theirs.
const IDLE: Duration = Duration::from_secs(30);

/// Pushes tasks. Clients are made for the first push that needs them.
pub struct Courier {
    pub(super) config: PushConfig,
    pub(super) guard: Arc<Guard>,
    pub(super) services: Services,
    /// How long a task is kept as its own reply.
    pub(super) kept_for: Duration,
    http: OnceLock<HttpClient>,
    grpc: OnceLock<GrpcClient>,
    #[cfg(feature = "kafka")]
    kafka: super::kafka::Producers,
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Courier")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

impl Courier {
    pub fn new(config: &PushConfig, discovery: Arc<Discovery>) -> Result<Self, BadNetwork> {
        Ok(Self {
            guard: Arc::new(Guard::new(config)?),
            services: Services::new(config, discovery)?,
            config: config.clone(),
            kept_for: DEFAULT_REPLY_RETENTION,
            http: OnceLock::new(),
            grpc: OnceLock::new(),
            #[cfg(feature = "kafka")]
            kafka: super::kafka::Producers::new(&config.kafka),
        })
    }

    /// The same, with this retention of ended tasks: a task that is kept as its reply is known for
    /// as long, but for a week at most.
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.kept_for = retention.clamp(DEFAULT_REPLY_RETENTION, MAX_REPLY_RETENTION);
        self
    }

    /// Pushes a task. Returns within the time limit of the target.
    pub(super) async fn push(&self, target: &Target, parcel: &Parcel<'_>) -> TaskResult {
        let limit = target.timeout();
        let push = async {
            if let Some(one) = &target.http {
                return http::push(self.http(), &self.guard, one, parcel).await;
            }
            if let Some(one) = &target.grpc {
                return grpc::push(self.grpc(), &self.guard, one, parcel, limit).await;
            }
            #[cfg(feature = "kafka")]
            if let Some(one) = &target.kafka {
                return self.kafka.push(one, parcel, limit).await.map(|()| None);
            }
            Err(TaskError::retry("this server cannot push to such a target"))
        };
        let Ok(pushed) = tokio::time::timeout(limit, push).await else {
            let text = format!("the target did not answer within {limit:?}");
            return Err(TaskError::retry(text));
        };
        if let Some(reply) = pushed?.filter(|_| target.keep_answer != Some(false)) {
            parcel.cx.reply_with(reply)?;
        }
        Ok(())
    }

    fn http(&self) -> &HttpClient {
        let new = || self.client(GuardedConnector::new(&self.guard));
        self.http.get_or_init(new)
    }

    /// The client for calls of an instance.
    pub(super) fn service_client(&self, instance: &Instance) -> &HttpClient {
        self.services.client(instance, |guard| {
            self.client(GuardedConnector::within(guard, services::CONNECT_WITHIN))
        })
    }

    fn client(&self, connector: GuardedConnector) -> HttpClient {
        let tls = self.connector().enable_all_versions();
        Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .build(tls.wrap_connector(connector))
    }

    fn grpc(&self) -> &GrpcClient {
        self.grpc.get_or_init(|| {
            let connector = self.connector().enable_http2();
            let connector = connector.wrap_connector(GuardedConnector::new(&self.guard));
            Client::builder(TokioExecutor::new())
                .http2_only(true)
                .pool_timer(TokioTimer::new())
                .timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .build(connector)
        })
    }

    fn connector(&self) -> HttpsConnectorBuilder<hyper_rustls::builderstates::WantsProtocols1> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = rustls::ClientConfig::builder_with_provider(provider);
        let tls = match versions.with_safe_default_protocol_versions() {
            Ok(versions) => versions
                .with_root_certificates(self.roots())
                .with_no_client_auth(),
            // Cannot happen with ring and rustls as built here; only a build that mixes other
            // versions gets here.
            Err(error) => {
                error!(%error, "cannot use the built-in TLS versions; using the defaults");
                rustls::ClientConfig::builder()
                    .with_root_certificates(self.roots())
                    .with_no_client_auth()
            }
        };
        HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
    }

    /// The authorities of the system and of the configuration.
    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(system.certs);
        if let Some(file) = &self.config.ca_file {
            match std::fs::read(file) {
                Ok(pem) => {
                    // Some editors write a byte order mark.
                    let pem = pem.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&pem);
                    let certificates = CertificateDer::pem_slice_iter(pem);
                    roots.add_parsable_certificates(certificates.filter_map(Result::ok));
                }
                Err(error) => error!(?file, %error, "cannot read push.ca_file"),
            }
        }
        if roots.is_empty() {
            warn!(
                "no authorities found; every push over TLS fails: install ca-certificates, or set push.ca_file"
            );
        }
        roots
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use axum::http::Request;
    use http_body_util::Full;
    use tower::{Service, ServiceExt};

    use super::super::barred::Forbidden;
    use super::*;
    use crate::discovery::ServiceConfig;

    /// A name passes the check of the URL; its address is known when it is dialled.
    #[tokio::test]
    async fn a_request_that_fails_at_a_forbidden_address_says_so_among_its_causes() {
        let discovery = Arc::new(Discovery::new(&ServiceConfig::default()));
        let courier = Courier::new(&PushConfig::default(), discovery).unwrap();
        let request = Request::get("http://localhost:8080/").body(Full::new(Bytes::new()));
        let failed = courier.http().request(request.unwrap()).await.unwrap_err();
        let forbidden = Forbidden::of(&failed).unwrap().to_string();
        assert!(forbidden.contains("is not called"), "{forbidden}");
        let request = Request::post("http://localhost:8080/").body(tonic::body::Body::empty());
        let mut client = courier.grpc().clone();
        let sent = client.ready().await.unwrap().call(request.unwrap()).await;
        let status = tonic::Status::from_error(Box::new(sent.unwrap_err()));
        assert!(Forbidden::of(&status).is_some(), "{status:?}");
    }
}
