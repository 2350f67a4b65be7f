//! `delayq-server check`: checks everything that a start needs, and prints one line for each part.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use delayq_plugin::history::HistoryStore;
use delayq_plugin::store::StoreOptions;
use delayq_plugin::{Error, Namespace, Store, open_store};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::missing::missing_file;
use crate::door::Tls;
use crate::open_files;
use crate::say::say;
use crate::server::{Server, ServerError};
use delayq_fronts::Front;
#[cfg(feature = "beanstalkd")]
use delayq_fronts::{ListenError, Listeners};
use delayq_service::access::TokenBook;
#[cfg(feature = "beanstalkd")]
use delayq_service::config::BeanstalkConfig;
use delayq_service::config::Config;
use delayq_service::listener::listen;

/// Checks every part, even after a failure, and reports each.
pub(crate) async fn run(mut config: Config) -> Result<(), ServerError> {
    config.is_only_looking = true;
    say("configuration: ok");
    let mut failed = Vec::new();
    stores(&config, &mut failed).await;
    failed.extend(told("history", history(&config).await));
    failed.extend(told("tls", tls(&config)));
    failed.extend(told("push", push(&config)));
    failed.extend(told("bootstrap token", bootstrap_token(&config)));
    let mut listeners = vec![("listen".to_owned(), Some(config.listen))];
    listeners.push(("admin.listen".to_owned(), config.admin.listen));
    if let Some(missing) = Front::not_built(&config) {
        failed.extend(told("fronts", Err(missing.to_string())));
    }
    let fronts = Front::ALL.map(|front| (front.option().to_owned(), front.listen(&config)));
    listeners.extend(fronts);
    listeners.push(("beanstalk.listen".to_owned(), config.beanstalk.listen));
    for (option, address) in listeners {
        match address {
            Some(address) => failed.extend(told(&option, port(address).await)),
            None => say(format!("{option}: off")),
        }
    }
    #[cfg(feature = "beanstalkd")]
    failed.extend(socket(&config).await);
    let most = config.connections.max;
    match open_files::raise(most) {
        Some(too_few) => say(format!("connections.max {most}: {too_few}")),
        None => say(format!("connections.max {most}: ok")),
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(ServerError::Refused(format!(
        "not ready: {}",
        failed.join(", ")
    )))
}

/// Reads the first token of a new server, if the configuration gives one. A server that has tokens
/// does not read it, so its file may be gone.
fn bootstrap_token(config: &Config) -> Result<String, String> {
    let file = config.bootstrap_token_file.as_deref();
    if file.is_some_and(|file| !file.exists()) {
        return Ok("the file is not there; only a server without tokens reads it".to_owned());
    }
    match config.given_token().map_err(|error| error.to_string())? {
        None => Ok("off".to_owned()),
        Some(text) => TokenBook::check_given(&text)
            .map(|()| "ok".to_owned())
            .map_err(str::to_owned),
    }
}

/// Asks the database of the history. A server also starts without it, and then records wait.
async fn history(config: &Config) -> Result<String, String> {
    let Some(url) = &config.history else {
        return Ok("off".to_owned());
    };
    if let Some(file) = missing_file(url) {
        return Ok(not_there(&file));
    }
    let timeout = config.store_options().call_timeout;
    let opened = HistoryStore::at(url, Namespace::default(), timeout);
    let history = opened.map_err(|error| error.to_string())?;
    let asked = history.status().await;
    history.close().await;
    match asked {
        Err(error @ (Error::Unavailable { .. } | Error::Indeterminate { .. })) => {
            return Ok(format!(
                "not reachable now, and a start does without it: records wait in the store. {error}"
            ));
        }
        asked => drop(asked.map_err(|error| error.to_string())?),
    }
    let topic = config.history_topic.as_ref();
    let topic = topic.map(|topic| format!(", and a copy to the topic {topic}, which is not asked"));
    Ok(format!(
        "ok, {}{}",
        history.place(),
        topic.unwrap_or_default()
    ))
}

/// Checks the Unix socket of the beanstalkd protocol.
#[cfg(feature = "beanstalkd")]
async fn socket(config: &Config) -> Option<String> {
    let option = "beanstalk.socket";
    if config.beanstalk.socket.is_none() {
        say(format!("{option}: off"));
        return None;
    }
    let beanstalk = BeanstalkConfig {
        listen: None,
        ..config.beanstalk.clone()
    };
    let alone = Config {
        beanstalk,
        ..config.clone()
    };
    let opened = match Listeners::of_beanstalkd(&alone).await {
        Ok(_) => Ok("ok".to_owned()),
        Err(ListenError::Socket { error, .. }) if error.kind() == ErrorKind::AddrInUse => {
            Ok("it is in use, by this server or another program".to_owned())
        }
        Err(error) => Err(error.to_string()),
    };
    told(option, opened)
}

/// Checks the server's own store, those of its namespaces, and unused pools.
async fn stores(config: &Config, failed: &mut Vec<String>) {
    let part = "store of the server";
    let server = if let Some(file) = missing_file(&config.store) {
        say(format!("{part}: {}", not_there(&file)));
        None
    } else {
        match Server::open(config.clone()).await {
            Ok(server) => {
                let tokens = server.app.tokens.all().len();
                say(format!(
                    "{part}: ok, {}, {tokens} tokens",
                    server.store_name()
                ));
                Some(server)
            }
            // A TLS error is reported by the check of the TLS files.
            Err(ServerError::Tls(_)) => None,
            Err(error) => {
                failed.extend(told(part, Err(error.to_string())));
                None
            }
        }
    };
    // A server opens it with its namespaces.
    if let Some(cold) = config.cold_url.as_deref().filter(|_| server.is_none()) {
        let checked = opened(config, cold, &Namespace::default()).await;
        failed.extend(told("cold store", checked));
    }
    let mut used = BTreeSet::new();
    for (name, namespace) in &config.namespaces {
        used.extend(namespace.pool.clone());
        let Ok(name) = Namespace::new(name) else {
            continue;
        };
        failed.extend(namespace_of(config, server.as_ref(), &name).await);
    }
    if !config
        .namespaces
        .contains_key(Namespace::default().as_str())
    {
        failed.extend(namespace_of(config, server.as_ref(), &Namespace::default()).await);
    }
    for (name, url) in config
        .pools
        .iter()
        .filter(|(name, _)| !used.contains(*name))
    {
        let checked = opened(config, url, &Namespace::default()).await;
        failed.extend(told(&format!("pool {name}"), checked));
    }
    if let Some(server) = server {
        server.close().await;
    }
}

/// Checks the store of a namespace. If the server's own store does not exist yet, checks the
/// configured pool.
async fn namespace_of(
    config: &Config,
    server: Option<&Server>,
    namespace: &Namespace,
) -> Option<String> {
    let pool = config.pool_of(namespace);
    let url = config.url_of(pool.as_deref()).unwrap_or_default();
    let checked = async {
        let Some(server) = server.filter(|_| missing_file(url).is_none()) else {
            return opened(config, url, namespace).await;
        };
        let space = server.app.spaces.of(namespace).await;
        let space = space.map_err(|problem| problem.to_string())?;
        checked(&**space.tasks.store()).await
    };
    told(&format!("namespace {namespace}"), checked.await)
}

/// Opens a store to check it.
async fn opened(config: &Config, url: &str, namespace: &Namespace) -> Result<String, String> {
    if let Some(file) = missing_file(url) {
        return Ok(not_there(&file));
    }
    let options = StoreOptions {
        namespace: namespace.clone(),
        ..config.store_options()
    };
    let store = open_store(url, options).await;
    let store = store.map_err(|error| error.to_string())?;
    let checked = checked(&*store).await;
    store.close().await;
    checked
}

async fn checked(store: &dyn Store) -> Result<String, String> {
    store.check().await.map_err(|error| error.to_string())?;
    Ok(format!("ok, {}", store.name()))
}

fn not_there(file: &Path) -> String {
    format!("{} is not there yet: a start makes it", file.display())
}

fn tls(config: &Config) -> Result<String, String> {
    let tls = Tls::open(&config.tls).map_err(|error| error.to_string())?;
    Ok(match (&tls, &config.tls.client_ca) {
        (None, _) => "off: use it, or a proxy with it, where others can listen in",
        (Some(_), None) => "ok",
        (Some(_), Some(_)) => "ok, and clients need a certificate",
    }
    .to_owned())
}

/// Checks the requirements of push.
fn push(config: &Config) -> Result<String, String> {
    let push = &config.push;
    if !cfg!(feature = "kafka")
        && let Some(name) = push.kafka.keys().next()
    {
        return Err(format!(
            "push.kafka.{name}: this server was built without Kafka: use one with the feature kafka"
        ));
    }
    let Some(file) = &push.ca_file else {
        return Ok("ok".to_owned());
    };
    let refused = |why: &str| format!("push.ca_file \"{}\": {why}", file.display());
    let pem = std::fs::read(file).map_err(|error| refused(&error.to_string()))?;
    let pem = pem.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&pem);
    let certificates = CertificateDer::pem_slice_iter(pem);
    let certificates: Result<Vec<_>, _> = certificates.collect();
    match certificates {
        Err(error) => Err(refused(&error.to_string())),
        Ok(found) if found.is_empty() => Err(refused("it has no certificate")),
        Ok(found) => Ok(format!("ok, {} authorities of push.ca_file", found.len())),
    }
}

/// Prints the result of a check. Returns the name of the part if it failed.
fn told(part: &str, checked: Result<String, String>) -> Option<String> {
    match checked {
        Ok(how) => {
            say(format!("{part}: {how}"));
            None
        }
        Err(why) => {
            say(format!("{part}: {why}"));
            Some(part.to_owned())
        }
    }
}

/// Checks that an address can be listened on. A port in use may be that of the running server.
async fn port(address: SocketAddr) -> Result<String, String> {
    match listen(address).await {
        Ok(_) => Ok(format!("ok, {address}")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(format!(
            "{address} is in use, by this server or another program"
        )),
        Err(error) => Err(ServerError::Listen { address, error }.to_string()),
    }
}
