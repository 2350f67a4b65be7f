//! Push over TLS, to a target with an authority of its own.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;

/// A port with TLS in front of a plain one, and its certificate in PEM.
async fn encrypted(plain: String) -> (u16, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, plain) = (acceptor.clone(), plain.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut behind = TcpStream::connect(plain).await.unwrap();
                let both = tokio::io::copy_bidirectional(&mut stream, &mut behind);
                both.await.ok();
            });
        }
    });
    (port, cert.pem())
}

#[tokio::test]
async fn a_target_is_trusted_by_the_authority_of_the_configuration_and_no_other() {
    let mut target = Receiver::open(Vec::new()).await;
    let plain = target.url.split('/').nth(2).unwrap().to_owned();
    let (port, authority) = encrypted(plain).await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority).unwrap();
    let trusting = PushConfig {
        allow_networks: vec!["127.0.0.0/8".to_owned(), "::1/128".to_owned()],
        ca_file: Some(ca),
        ..PushConfig::default()
    };
    let strict = PushConfig {
        ca_file: None,
        ..trusting.clone()
    };
    let url = format!("https://localhost:{port}/hook");
    let http = json!({"http": {"url": url}, "retry": {"attempts": 1}});

    let site = Site::open(&trusting);
    site.set("job", http.clone()).await;
    site.send(DelayQueueJob::raw("job", "x").id("1")).await;
    assert_eq!(target.next().await.header("delayq-task-id"), "1");
    site.until("job", "1", TaskState::Done).await;

    let site = Site::open(&strict);
    site.set("job", http).await;
    site.send(DelayQueueJob::raw("job", "x").id("2")).await;
    let dead = site.until("job", "2", TaskState::Dead).await;
    let error = dead.history.last_error.unwrap();
    assert!(error.contains("certificate"), "{error}");
    assert!(target.got.try_recv().is_err(), "nothing was sent to it");
    // Without TLS it is not called at all.
    let pattern = TypePattern::new("job").unwrap();
    let plain = serde_json::from_value(json!({"http": {"url": target.url}})).unwrap();
    assert!(site.push.set(&pattern, plain).await.is_err());
}
