//! The remote store over TLS.

use delayq_core::store::{Durability, StoreOptions};
use delayq_plugin::{DelayQueueJob, Error, TaskSubmitService, open_store};
use delayq_service::config::Config;
use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::Site;
use crate::server::Server;

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
