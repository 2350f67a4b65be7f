//! Client of a Eureka registry.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_core::{Error, Result, Timestamp};
use serde_json::{Value, json};

use crate::http_client::{Answered, Asked, HttpClient};

/// How often an instance says that it is alive, by default.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// An instance is gone after so many heartbeats without one.
const MISSED: u64 = 3;
/// The class of the data center, without which a registry refuses an instance.
const DATA_CENTER: &str = "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo";

/// Why a registry did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EurekaError {
    /// No server of the registry answered. Trying again later helps.
    #[error("no answer of the registry: {0}")]
    Unreachable(String),
    /// A server refused it: the same will be refused again.
    #[error("the registry refused it: {status} {reason}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// What it said.
        reason: String,
    },
}

/// An instance of an application, as a registry lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EurekaInstance {
    app: String,
    host: String,
    port: u16,
    is_secure: bool,
    metadata: BTreeMap<String, String>,
    heartbeat: Duration,
}

impl EurekaInstance {
    /// The instance of the application `app` at `address`, such as `http://10.0.0.7:8080`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an address without scheme or host, and for a name of letters
    /// that no path has.
    pub fn new(app: &str, address: &str) -> Result<Self> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if app.is_empty() || !app.bytes().all(is_name) {
            let reason = format!("{app:?}: use A-Z a-z 0-9 . _ -");
            return Err(Error::invalid("application", reason));
        }
        let uri: Uri = address.parse().map_err(|_| bad_address(address))?;
        let host = uri.host().ok_or_else(|| bad_address(address))?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad_address(address)),
        };
        let usual = if is_secure { 443 } else { 80 };
        Ok(Self {
            app: app.to_owned(),
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(usual),
            is_secure,
            metadata: BTreeMap::new(),
            heartbeat: HEARTBEAT,
        })
    }

    /// The same with an entry of its metadata.
    #[must_use]
    pub fn metadata(mut self, name: &str, value: &str) -> Self {
        self.metadata.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same with a heartbeat so often; default 10 s, at least 1 s. The registry takes it off
    /// the list after three that are missing.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat.max(Duration::from_secs(1));
        self
    }

    /// How often it says that it is alive.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.heartbeat
    }

    /// Its identity: `HOST:APPLICATION:PORT`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}:{}:{}", self.host, self.app.to_lowercase(), self.port)
    }

    fn path(&self) -> String {
        format!("/apps/{}/{}", self.app.to_uppercase(), self.id())
    }

    fn document(&self, at: Timestamp) -> Value {
        let (lower, at) = (self.app.to_lowercase(), at.as_millis().to_string());
        let scheme = if self.is_secure { "https" } else { "http" };
        let home = format!("{scheme}://{}:{}/", self.host, self.port);
        let seconds = self.heartbeat.as_secs();
        json!({"instance": {
            "instanceId": self.id(),
            "hostName": self.host,
            "app": self.app.to_uppercase(),
            "ipAddr": self.host,
            "status": "UP",
            "overriddenStatus": "UNKNOWN",
            "port": {"$": self.port, "@enabled": (!self.is_secure).to_string()},
            "securePort": {"$": self.port, "@enabled": self.is_secure.to_string()},
            "countryId": 1,
            "dataCenterInfo": {"@class": DATA_CENTER, "name": "MyOwn"},
            "leaseInfo": {
                "renewalIntervalInSecs": seconds,
                "durationInSecs": seconds * MISSED,
            },
            "metadata": self.metadata,
            "homePageUrl": home,
            "vipAddress": lower,
            "secureVipAddress": lower,
            "isCoordinatingDiscoveryServer": "false",
            "lastUpdatedTimestamp": at,
            "lastDirtyTimestamp": at,
            "actionType": "ADDED",
        }})
    }
}

fn bad_address(address: &str) -> Error {
    let reason = format!("{address:?}: write it as http://10.0.0.7:8080");
    Error::invalid("address", reason)
}

/// A client of a Eureka registry. Of several servers the next one is asked when one does not
/// answer. Cheap to clone.
#[derive(Clone)]
pub struct EurekaClient {
    servers: Arc<[RegistryServer]>,
    /// The server that answered last.
    good: Arc<AtomicUsize>,
    http: HttpClient,
}

/// One server of a registry.
#[derive(Clone)]
struct RegistryServer {
    url: String,
    /// Of a URL with a user and a password.
    authorization: Option<HeaderValue>,
}

impl RegistryServer {
    fn new(text: &str) -> Result<Self> {
        let refused = || {
            let reason = "write each as http://HOST:8761/eureka";
            Error::invalid("URL of the registry", reason)
        };
        let text = text.trim().trim_end_matches('/');
        let (scheme, rest) = text.split_once("://").ok_or_else(refused)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let authorization = user.map(|user| format!("Basic {}", STANDARD.encode(user)));
        let authorization = authorization.and_then(|text| HeaderValue::from_str(&text).ok());
        let url = format!("{scheme}://{host}/{path}");
        let url = url.trim_end_matches('/').to_owned();
        let uri: Uri = url.parse().map_err(|_| refused())?;
        let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_known || uri.host().is_none() {
            return Err(refused());
        }
        Ok(Self { url, authorization })
    }
}

impl EurekaClient {
    /// A client of the registry with these servers, such as `http://eureka:8761/eureka`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for no URL, and for one that cannot be one.
    pub fn new<T: AsRef<str>>(urls: impl IntoIterator<Item = T>) -> Result<Self> {
        let servers = urls
            .into_iter()
            .map(|url| RegistryServer::new(url.as_ref()));
        let servers: Vec<_> = servers.collect::<Result<_>>()?;
        if servers.is_empty() {
            return Err(Error::invalid("URL of the registry", "give at least one"));
        }
        Ok(Self {
            servers: servers.into(),
            good: Arc::default(),
            http: HttpClient::new(),
        })
    }

    /// Registers an instance at `now`. Repeating it is harmless.
    ///
    /// # Errors
    /// [`EurekaError`]; so for every method.
    pub async fn register(
        &self,
        instance: &EurekaInstance,
        now: Timestamp,
    ) -> Result<(), EurekaError> {
        let path = format!("/apps/{}", instance.app.to_uppercase());
        let body = instance.document(now).to_string().into_bytes();
        let answered = self.ask(&Method::POST, &path, body).await?;
        expect_success(&answered)
    }

    /// Says that an instance is alive; `false`: the registry does not know it, so that it has to
    /// register again.
    ///
    /// # Errors
    /// [`EurekaError`].
    pub async fn heartbeat(&self, instance: &EurekaInstance) -> Result<bool, EurekaError> {
        let path = format!("{}?status=UP", instance.path());
        let answered = self.ask(&Method::PUT, &path, Vec::new()).await?;
        if answered.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        expect_success(&answered).map(|()| true)
    }

    /// Takes an instance off the list.
    ///
    /// # Errors
    /// [`EurekaError`].
    pub async fn deregister(&self, instance: &EurekaInstance) -> Result<(), EurekaError> {
        let answered = self
            .ask(&Method::DELETE, &instance.path(), Vec::new())
            .await?;
        if answered.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        expect_success(&answered)
    }

    /// All applications, as the registry writes them in JSON.
    ///
    /// # Errors
    /// [`EurekaError`].
    pub async fn apps(&self) -> Result<Value, EurekaError> {
        self.document("/apps").await
    }

    /// What has changed in the last minutes, in the same form.
    ///
    /// # Errors
    /// [`EurekaError`].
    pub async fn delta(&self) -> Result<Value, EurekaError> {
        self.document("/apps/delta").await
    }

    async fn document(&self, path: &str) -> Result<Value, EurekaError> {
        let answered = self.ask(&Method::GET, path, Vec::new()).await?;
        expect_success(&answered)?;
        serde_json::from_slice(&answered.body)
            .map_err(|error| EurekaError::Unreachable(format!("{path} is no JSON: {error}")))
    }

    async fn ask(
        &self,
        method: &Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Answered, EurekaError> {
        let first = self.good.load(Ordering::Relaxed);
        let mut last = String::new();
        let servers = self.servers.iter().enumerate().cycle();
        for (index, server) in servers.skip(first).take(self.servers.len()) {
            let json = HeaderValue::from_static("application/json");
            let mut headers = HeaderMap::from_iter([(ACCEPT, json.clone())]);
            if !body.is_empty() {
                headers.insert(CONTENT_TYPE, json);
            }
            if let Some(authorization) = &server.authorization {
                headers.insert(AUTHORIZATION, authorization.clone());
            }
            let url = format!("{}{path}", server.url);
            let asked = Asked {
                method: method.clone(),
                url: &url,
                headers,
                body: body.clone(),
            };
            match self.http.ask(asked).await {
                Ok(answered) if !answered.status.is_server_error() => {
                    self.good.store(index, Ordering::Relaxed);
                    return Ok(answered);
                }
                Ok(answered) => last = format!("{url}: {}", answered.status),
                Err(error) => last = format!("{url}: {error}"),
            }
        }
        Err(EurekaError::Unreachable(last))
    }
}

impl fmt::Debug for EurekaClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls = self.servers.iter().map(|server| &server.url);
        f.debug_list().entries(urls).finish()
    }
}

fn expect_success(answered: &Answered) -> Result<(), EurekaError> {
    if answered.status.is_success() {
        return Ok(());
    }
    let reason: String = String::from_utf8_lossy(&answered.body)
        .chars()
        .take(200)
        .collect();
    Err(EurekaError::Refused {
        status: answered.status.as_u16(),
        reason,
    })
}
