//! The store: its connection and its calls.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use delayq_core::store::{Durability, StoreOptions, Wakeup};
use delayq_core::{Error, Namespace, Result};
use delayq_proto::pb;
use delayq_proto::pb::delayq_client::DelayqClient;
use tokio::sync::{broadcast, oneshot};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status};
use tracing::warn;

use crate::address::Address;
use crate::failure::{failure, is_away};
use crate::io_thread::IoThread;

mod wakeups;

/// Number of wake-ups that a slow receiver may be behind. After that it claims from every type.
const WAKEUPS: usize = 1_024;
/// How often an idle connection is checked.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Bytes in transit in one call, and in all calls.
const WINDOWS: (u32, u32) = (1 << 20, 8 << 20);

/// The shortest and the longest wait before a call is made again: a server is back within the
/// longest one of its start.
const WAITS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// The client of the service, which sends the token.
pub(crate) type Client = DelayqClient<InterceptedService<Channel, Token>>;

/// A token to be added to the metadata of each call.
#[derive(Clone, Debug)]
pub(crate) struct Token(MetadataValue<Ascii>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        metadata.insert("authorization", self.0.clone());
        // The user of this store logs operators' actions itself, as with every store.
        metadata.insert("delayq-logs-itself", MetadataValue::from_static("true"));
        Ok(request)
    }
}

/// A call that failed.
struct Failed {
    error: Error,
    /// True if it did nothing because the server is away.
    is_away: bool,
}

/// A store that a server keeps.
#[derive(Debug)]
pub struct RemoteStore {
    /// The URL without the token.
    pub(crate) name: String,
    pub(crate) namespace: Namespace,
    pub(crate) wakeups: broadcast::Sender<Wakeup>,
    /// The weakest acceptable class.
    asked: Durability,
    /// The class of the server's store, as last reported.
    found: Arc<Mutex<Durability>>,
    call_timeout: Duration,
    client: Client,
    is_closed: AtomicBool,
    thread: IoThread,
}

impl RemoteStore {
    /// Connects to the server that `url` names: `delayq://TOKEN@HOST[:PORT][/NAMESPACE]`, port 7880
    /// by default, `delayqs://` with TLS, `?ca=FILE` with the certificates to trust instead of the
    /// system's. Uses the namespace of the URL, or else that of the options.
    ///
    /// Lost connections are renewed for as long as the store is used.
    ///
    /// # Errors
    /// `InvalidInput` for the URL or options; `Unavailable` if the server is not reached within the
    /// call timeout; `Misconfigured` if it refuses the token or namespace, or if its store cannot
    /// keep the durability class of the options.
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Arc<Self>> {
        let options = options.checked()?;
        let address = Address::read(url)?;
        let namespace = namespace(&address, options.namespace)?;
        let name = format!("{address}/{namespace}");
        let no_thread = |error: std::io::Error| Error::unavailable(&name, error.to_string());
        let thread = IoThread::start().map_err(no_thread)?;
        let endpoint = endpoint(&address, options.call_timeout)?;
        let bearer = format!("Bearer {}", address.token);
        let refused = |_| Error::invalid("store URL", "its token cannot be sent in a header");
        let mut bearer: MetadataValue<Ascii> = bearer.parse().map_err(refused)?;
        bearer.set_sensitive(true);
        // On the thread, as connections live on the runtime that created them.
        let made = thread.spawn(async move { endpoint.connect_lazy() });
        let channel = made.await.map_err(|_| lost(&name))?;
        let client = DelayqClient::with_interceptor(channel, Token(bearer))
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let store = Arc::new(Self {
            found: Arc::new(Mutex::new(options.durability)),
            wakeups: broadcast::channel(WAKEUPS).0,
            asked: options.durability,
            call_timeout: options.call_timeout,
            is_closed: AtomicBool::new(false),
            name,
            namespace,
            client,
            thread,
        });
        let verified = store.verify().await;
        verified.map_err(|error| not_reached(error, address.has_tls))?;
        store.subscribe().await;
        Ok(store)
    }

    /// Makes one call within its time limit.
    pub(crate) async fn call<A, F>(&self, call: impl FnOnce(Client) -> F) -> Result<A>
    where
        A: Send + 'static,
        F: Future<Output = Result<Response<A>, Status>> + Send + 'static,
    {
        let made = self.call_within(self.call_timeout, call).await;
        made.map_err(|failed| failed.error)
    }

    /// The time until which a call that begins now is made again while the server is away.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.call_timeout
    }

    /// Makes a call within its time limit, and makes it again until `deadline` while the server is
    /// away. A call that may have arrived is not made again. If the caller is gone, it is not made
    /// again either.
    pub(crate) async fn call_until_sent<R, A, F>(
        &self,
        deadline: Instant,
        request: R,
        call: impl Fn(Client, R) -> F,
    ) -> Result<A>
    where
        R: Clone,
        A: Send + 'static,
        F: Future<Output = Result<Response<A>, Status>> + Send + 'static,
    {
        let (mut limit, mut wait) = (self.call_timeout, WAITS.0);
        loop {
            let (started, request) = (Instant::now(), request.clone());
            let made = self.call_within(limit, |client| call(client, request));
            let made = made.await;
            let error = match made {
                Ok(answer) => return Ok(answer),
                Err(failed) if failed.is_away => failed.error,
                Err(failed) => return Err(failed.error),
            };
            let pause = wait.mul_f64(0.5 + fastrand::f64() / 2.0);
            // A try that the deadline cuts off is in doubt, and this one was not.
            if Instant::now() + pause + started.elapsed() >= deadline {
                return Err(error);
            }
            let paused = self.thread.spawn(tokio::time::sleep(pause)).await;
            paused.map_err(|_| lost(&self.name))?;
            wait = (wait * 2).min(WAITS.1);
            limit = deadline.saturating_duration_since(Instant::now());
        }
    }

    async fn call_within<A, F>(
        &self,
        limit: Duration,
        call: impl FnOnce(Client) -> F,
    ) -> Result<A, Failed>
    where
        A: Send + 'static,
        F: Future<Output = Result<Response<A>, Status>> + Send + 'static,
    {
        let is_not_away = |error| Failed {
            error,
            is_away: false,
        };
        if self.is_closed.load(Ordering::Acquire) {
            return Err(is_not_away(Error::Closed("the store")));
        }
        let calling = call(self.client.clone());
        let (store, call_timeout) = (self.name.clone(), self.call_timeout);
        let running = self.thread.spawn(async move {
            match tokio::time::timeout(limit, calling).await {
                Ok(Ok(answer)) => Ok(answer.into_inner()),
                Ok(Err(status)) => Err(Failed {
                    error: failure(&store, &status),
                    is_away: is_away(&status),
                }),
                Err(_) => {
                    let detail = format!("no answer in {call_timeout:?}");
                    Err(is_not_away(Error::indeterminate(&store, detail)))
                }
            }
        });
        let lost = |_| Err(is_not_away(lost(&self.name)));
        running.await.unwrap_or_else(lost)
    }

    /// Reads the guarantees of the server's store, and refuses a weaker class than requested.
    pub(crate) async fn verify(&self) -> Result<()> {
        let request = pb::InfoRequest {
            namespace: self.namespace.to_string(),
        };
        let info = self.call(async move |mut client: Client| client.info(request).await);
        let info = info.await?;
        let durability = info.durability.parse()?;
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = durability;
        if durability >= self.asked {
            return Ok(());
        }
        let (found, asked) = (durability.as_str(), self.asked.as_str());
        let setting = format!("its store {} is of class {found}, not {asked}", info.store);
        let fix = format!(
            "set durability = \"{asked}\" in the configuration of the server, or add \
             ?durability={found} to the URL"
        );
        Err(Error::misconfigured(&self.name, setting, fix))
    }

    /// Starts to receive wake-ups, and waits for the first subscription or its refusal.
    async fn subscribe(self: &Arc<Self>) {
        let (opened, is_open) = oneshot::channel();
        let following = wakeups::follow(Arc::downgrade(self), self.client.clone(), opened);
        self.thread.spawn(following);
        let limit = self.call_timeout;
        let opening = async move { tokio::time::timeout(limit, is_open).await.is_ok() };
        if !self.thread.spawn(opening).await.unwrap_or(false) {
            warn!(
                store = self.name,
                "cannot receive wake-ups yet; tasks may start later by up to a poll interval"
            );
        }
    }

    pub(crate) fn found(&self) -> Durability {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(crate) fn mark_closed(&self) {
        self.is_closed.store(true, Ordering::Release);
    }
}

/// The thread ended with the program.
fn lost(store: &str) -> Error {
    Error::indeterminate(store, "its thread has ended")
}

fn namespace(address: &Address, option: Namespace) -> Result<Namespace> {
    match &address.namespace {
        None => Ok(option),
        Some(named) if option == Namespace::default() || option == *named => Ok(named.clone()),
        Some(named) => {
            let reason = format!("it names {named}, and the options {option}: name one of them");
            Err(Error::invalid("namespace", reason))
        }
    }
}

/// The error if a server was not reached at first: nothing was sent that could be in doubt.
fn not_reached(error: Error, has_tls: bool) -> Error {
    let (Error::Unavailable { store, detail } | Error::Indeterminate { store, detail }) = error
    else {
        return error;
    };
    let hint = if has_tls {
        "without TLS there, write delayq://"
    } else {
        "with TLS there, write delayqs://"
    };
    Error::unavailable(store, format!("{detail}; is a delayq-server there? {hint}"))
}

fn endpoint(address: &Address, call_timeout: Duration) -> Result<Endpoint> {
    let invalid = |reason: String| Error::invalid("store URL", reason);
    let scheme = if address.has_tls { "https" } else { "http" };
    let uri = format!("{scheme}://{}", address.authority);
    let (stream, connection) = WINDOWS;
    let endpoint = Endpoint::from_shared(uri)
        .map_err(|error| invalid(error.to_string()))?
        // A call that waits for a connection must fail with the connection's error, not by its own
        // time-out.
        .connect_timeout(call_timeout / 2)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(call_timeout)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(stream)
        .initial_connection_window_size(connection);
    if !address.has_tls {
        return Ok(endpoint);
    }
    let tls = match &address.ca {
        None => ClientTlsConfig::new().with_native_roots(),
        Some(file) => {
            let pem = std::fs::read(file);
            let pem = pem.map_err(|error| invalid(format!("ca={}: {error}", file.display())))?;
            // Some editors write a byte order mark, which no reader of PEM takes.
            let pem = pem.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&pem);
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
        }
    };
    let endpoint = endpoint.tls_config(tls);
    endpoint.map_err(|error| invalid(format!("TLS cannot be set up: {error}")))
}
