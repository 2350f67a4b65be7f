//! Announcement of an application: which types it serves, and where.

use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method};
use delayq_core::{Clock, Error, Result, SystemClock, TaskType};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::call::WORK_PATH;
use crate::eureka::{EurekaClient, EurekaError, EurekaInstance};
use crate::http_client::{Asked, HttpClient};

/// The entry of the metadata in a registry that names the types, separated by commas.
const TYPES: &str = "delayq.types";
/// The entry that servers of the Spring delay queue read.
const SPRING_TYPES: &str = "delay-queue:task";
/// How often an instance announces itself to a server, and how long that holds.
const HEARTBEAT: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(30);
/// How soon a first announcement is tried again that failed.
const AGAIN: Duration = Duration::from_secs(2);
/// The longest time that the end of a registration may take.
const DEREGISTERED_WITHIN: Duration = Duration::from_secs(5);

/// The registry or server where an application announces itself, and its own address.
#[derive(Clone, Debug)]
pub struct Announcement {
    way: Way,
    metadata: Vec<(String, String)>,
    heartbeat: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Way {
    Eureka {
        urls: Vec<String>,
        app: String,
        address: String,
    },
    Server {
        url: String,
        namespace: String,
        token: String,
        address: String,
    },
}

impl Announcement {
    /// In a Eureka registry with these servers (`http://HOST:8761/eureka`), as an instance of `app`
    /// at `address` (`http://10.0.0.7:8080`). The metadata `delayq.types` and `delay-queue:task`
    /// name the types, so that servers of the Spring delay queue call it as well.
    pub fn at_eureka<T: Into<String>>(
        urls: impl IntoIterator<Item = T>,
        app: impl Into<String>,
        address: impl Into<String>,
    ) -> Self {
        Self::of(Way::Eureka {
            urls: urls.into_iter().map(Into::into).collect(),
            app: app.into(),
            address: address.into(),
        })
    }

    /// At a delayq-server (`http://HOST:7880`), for tasks of `namespace`, with a token of scope
    /// `work`. One server is enough: all servers on its store see it.
    pub fn at_server(
        url: impl Into<String>,
        namespace: impl Into<String>,
        token: impl Into<String>,
        address: impl Into<String>,
    ) -> Self {
        Self::of(Way::Server {
            url: url.into(),
            namespace: namespace.into(),
            token: token.into(),
            address: address.into(),
        })
    }

    fn of(way: Way) -> Self {
        Self {
            way,
            metadata: Vec::new(),
            heartbeat: None,
        }
    }

    /// A further entry of the metadata in the registry.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    /// How often the application says that it is alive; default 10 s, at least 1 s. After three
    /// times that it is missing it is called no more.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = Some(heartbeat.max(Duration::from_secs(1)));
        self
    }

    /// Announces until the registration is ended.
    pub(crate) fn begin(self, types: &[TaskType]) -> Result<Registration> {
        let heartbeat = self.heartbeat;
        match self.way {
            Way::Eureka { urls, app, address } => {
                let names: Vec<_> = types.iter().map(TaskType::as_str).collect();
                let mut instance = EurekaInstance::new(&app, &address)?
                    .metadata(TYPES, &names.join(","))
                    .metadata(SPRING_TYPES, &names.join(", "))
                    .heartbeat(heartbeat.unwrap_or(HEARTBEAT));
                for (name, value) in &self.metadata {
                    instance = instance.metadata(name, value);
                }
                Ok(Registration::registered(EurekaClient::new(urls)?, instance))
            }
            Way::Server {
                url,
                namespace,
                token,
                address,
            } => {
                let heartbeat = heartbeat.unwrap_or(HEARTBEAT);
                let entry = ServerEntry::new(&url, &namespace, &token)?;
                let entry = entry.at(&address, types, heartbeat * 3)?;
                let stop = CancellationToken::new();
                let task = tokio::spawn(entry.keep(heartbeat, stop.clone()));
                Ok(Registration { stop, task })
            }
        }
    }
}

/// Registers an instance and sends heartbeats until `stop`, then deregisters it.
async fn keep_registered(client: EurekaClient, instance: EurekaInstance, stop: CancellationToken) {
    let (mut is_registered, mut is_silent) = (false, false);
    loop {
        let beat = async {
            if is_registered && client.heartbeat(&instance).await? {
                return Ok(());
            }
            client.register(&instance, SystemClock.now()).await?;
            info!(instance = instance.id(), "registered");
            Ok::<_, EurekaError>(())
        };
        let beat = tokio::select! {
            beat = beat => beat,
            () = stop.cancelled() => break,
        };
        match &beat {
            Ok(()) => (is_registered, is_silent) = (true, false),
            Err(error) if !is_silent => {
                warn!(instance = instance.id(), %error, "cannot register; trying again");
                is_silent = true;
            }
            Err(error) => debug!(instance = instance.id(), %error, "cannot register"),
        }
        let wait = if beat.is_ok() {
            instance.interval()
        } else {
            AGAIN
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => break,
        }
    }
    if let Ok(Err(error)) = timeout(DEREGISTERED_WITHIN, client.deregister(&instance)).await {
        debug!(instance = instance.id(), %error, "cannot deregister; the entry expires with its lease");
    }
}

/// The entry of this application on the list of callees of a server.
#[derive(Debug)]
struct ServerEntry {
    http: HttpClient,
    url: String,
    authorization: HeaderValue,
    body: Vec<u8>,
}

impl ServerEntry {
    fn new(url: &str, namespace: &str, token: &str) -> Result<Self> {
        let authorization = HeaderValue::from_str(&format!("Bearer {token}"));
        let authorization = authorization
            .map_err(|_| Error::invalid("token", "a token of a server is visible ASCII"))?;
        let url = url.trim_end_matches('/');
        Ok(Self {
            http: HttpClient::new(),
            url: format!("{url}/v1/{namespace}/callees"),
            authorization,
            body: Vec::new(),
        })
    }

    fn at(mut self, address: &str, types: &[TaskType], lease: Duration) -> Result<Self> {
        let instance = EurekaInstance::new("callee", address)?;
        let types: Vec<_> = types.iter().map(TaskType::as_str).collect();
        let url = format!("{}{WORK_PATH}", address.trim_end_matches('/'));
        let lease_ms = u64::try_from(lease.max(LEASE / 10).as_millis()).unwrap_or(u64::MAX);
        let body = json!({"url": url, "types": types, "lease": lease_ms.to_string()});
        self.body = body.to_string().into_bytes();
        self.url = format!("{}/{}", self.url, instance.id());
        Ok(self)
    }

    async fn keep(self, heartbeat: Duration, stop: CancellationToken) {
        let mut is_silent = false;
        loop {
            let beat = tokio::select! {
                beat = self.ask(Method::PUT) => beat,
                () = stop.cancelled() => break,
            };
            match &beat {
                Ok(()) => is_silent = false,
                Err(error) if !is_silent => {
                    warn!(
                        url = self.url,
                        error, "cannot announce the application; trying again"
                    );
                    is_silent = true;
                }
                Err(error) => debug!(url = self.url, error, "cannot announce the application"),
            }
            let wait = if beat.is_ok() { heartbeat } else { AGAIN };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => break,
            }
        }
        if let Ok(Err(error)) = timeout(DEREGISTERED_WITHIN, self.ask(Method::DELETE)).await {
            debug!(
                url = self.url,
                error, "cannot deregister; the entry expires with its lease"
            );
        }
    }

    async fn ask(&self, method: Method) -> Result<(), String> {
        let json = HeaderValue::from_static("application/json");
        let headers = [
            (AUTHORIZATION, self.authorization.clone()),
            (CONTENT_TYPE, json),
        ];
        let has_body = method == Method::PUT;
        let asked = Asked {
            method,
            url: &self.url,
            headers: HeaderMap::from_iter(headers),
            body: if has_body {
                self.body.clone()
            } else {
                Vec::new()
            },
        };
        let answered = self.http.ask(asked).await?;
        if answered.status.is_success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&answered.body);
        Err(format!("{} {said}", answered.status))
    }
}

/// A registration that is kept up by heartbeats. Dropping it ends the registration without
/// waiting.
#[derive(Debug)]
#[must_use = "the registration ends when this is dropped"]
pub struct Registration {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Registration {
    /// Registers an instance in a registry and sends heartbeats.
    pub fn registered(client: EurekaClient, instance: EurekaInstance) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep_registered(client, instance, stop.clone()));
        Self { stop, task }
    }

    /// Takes the application off the list; returns after 5 s at most.
    pub async fn deregister(mut self) {
        self.stop.cancel();
        let task = std::mem::replace(&mut self.task, tokio::spawn(async {}));
        task.await.ok();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
