//! The remote store over TLS: that of the server, and that of a proxy in front of it.

use std::sync::Arc;

use delayq_core::store::{Durability, StoreOptions};
use delayq_plugin::store::MemoryStore;
use delayq_plugin::{
    DelayQueueJob, Error, Namespace, Store, SystemClock, TaskSubmitService, open_store,
};
use delayq_remote::RemoteStore;
use delayq_service::config::Config;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::Site;
use crate::server::Server;

#[tokio::test]
async fn delayqs_trusts_the_certificate_of_its_file_and_no_other() {
    let options = StoreOptions {
        durability: Durability::Memory,
        ..StoreOptions::default()
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock), options.clone()));
    let site = Site::over(&Namespace::default(), store).await;
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = site.address.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut server = TcpStream::connect(behind).await.unwrap();
                tokio::io::copy_bidirectional(&mut stream, &mut server)
                    .await
                    .ok();
            });
        }
    });
    let url = format!("delayqs://{}@localhost:{port}", site.token);
    let trusted = format!("{url}?ca={}", ca.display());
    let store = RemoteStore::connect(&trusted, options.clone())
        .await
        .unwrap();
    store.check().await.unwrap();
    // The system does not know this authority.
    let refused = RemoteStore::connect(&url, options).await.unwrap_err();
    assert!(
        matches!(refused, delayq_plugin::Error::Unavailable { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn an_application_reaches_the_servers_own_tls() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["server.pem", "server.key"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let mut config = Config {
        listen: ([127, 0, 0, 1], 0).into(),
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        ..Config::default()
    };
    config.tls.certificate = Some(certificate.clone());
    config.tls.key = Some(key);
    let site = Site::of(Server::open(config).await.unwrap()).await;
    let (_, port) = site.address.rsplit_once(':').unwrap();
    let place = format!("{}@localhost:{port}", site.token);
    let options = StoreOptions {
        durability: Durability::Memory,
        ..StoreOptions::default()
    };
    let url = format!("delayqs://{place}?ca={}", certificate.display());
    let store = open_store(&url, options.clone()).await.unwrap();
    let tasks = TaskSubmitService::new(store);
    let job = DelayQueueJob::raw("mail", "hello").id("a");
    tasks.send(job).await.unwrap();
    let found = tasks.find("mail", "a").await.unwrap().unwrap();
    assert_eq!(found.message.as_deref(), Some(&b"hello"[..]));
    // Neither without TLS, nor with an authority that has not signed it.
    for (scheme, other) in [
        ("delayq", "write delayqs://"),
        ("delayqs", "write delayq://"),
    ] {
        let url = format!("{scheme}://{place}");
        let refused = open_store(&url, options.clone()).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
        assert!(refused.to_string().contains(other), "{refused}");
    }
}
