//! Connections over TLS.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use delayq_service::config::TlsConfig;
use rustls::ClientConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificates::{Authority, read};
use super::{Site, answer, config, rest};
use crate::door::Tls;
use crate::server::Server;

/// Collects what is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn tls(folder: &Path) -> TlsConfig {
    TlsConfig {
        certificate: Some(folder.join("server.pem")),
        key: Some(folder.join("server.key")),
        client_ca: None,
    }
}

/// A client that trusts `authority`, with a certificate of its own or without.
fn client(authority: &Authority, own: Option<&(String, String)>, alpn: &[u8]) -> TlsConnector {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(authority.roots());
    let mut config = match own.map(read) {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    TlsConnector::from(Arc::new(config))
}

async fn connect(site: &Site, client: &TlsConnector) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").unwrap();
    client.connect(name, site.connect().await).await
}

fn certificate_of(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    let (_, session) = stream.get_ref();
    session.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_open_ones_are_served_on() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.write(folder.path());
    let mut config = config();
    config.tls = tls(folder.path());
    let server = Server::open(config).await.unwrap();
    let tls = server.tls.clone().unwrap();
    let site = Site::of(server).await;
    let client = client(&authority, None, b"http/1.1");
    let mut early = connect(&site, &client).await.unwrap();
    let head = site.head("GET", "/health/live", "");
    early.write_all(head.as_bytes()).await.unwrap();
    assert!(answer(&mut early).await.contains("live"));
    assert!(!tls.refresh().unwrap(), "nothing has changed");

    authority.write(folder.path());
    assert!(tls.refresh().unwrap());
    let late = connect(&site, &client).await.unwrap();
    assert_ne!(certificate_of(&early), certificate_of(&late));
    early.write_all(head.as_bytes()).await.unwrap();
    assert!(answer(&mut early).await.contains("live"));

    std::fs::write(folder.path().join("server.pem"), "half a file").unwrap();
    let refused = tls.refresh().unwrap_err().to_string();
    assert!(
        refused.contains("tls.certificate") && refused.contains("server.pem"),
        "{refused}"
    );
    let still = connect(&site, &client).await.unwrap();
    assert_eq!(certificate_of(&still), certificate_of(&late));
}

#[tokio::test]
async fn both_protocols_are_offered_and_plain_text_is_not_understood() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.write(folder.path());
    let mut config = config();
    config.tls = tls(folder.path());
    let site = Site::open(config).await;
    for protocol in [&b"h2"[..], b"http/1.1"] {
        let stream = connect(&site, &client(&authority, None, protocol))
            .await
            .unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // Connects and says nothing, as the probe of a balancer.
    let mut probe = site.connect().await;
    probe.shutdown().await.unwrap();
    rest(&mut probe).await;
    let mut plain = site.connect().await;
    let own = plain.local_addr().unwrap();
    let head = site.head("GET", "/health/live", "");
    plain.write_all(head.as_bytes()).await.unwrap();
    let said = rest(&mut plain).await;
    assert!(!said.contains("200 OK"), "{said}");
    site.stopping.end();
    site.served.await.unwrap();
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let warnings: Vec<_> = text
        .lines()
        .filter(|line| line.contains(" WARN "))
        .collect();
    let [warning] = warnings[..] else {
        panic!("{text}");
    };
    let peer = format!("a TLS handshake failed peer={own} reason=");
    assert!(warning.contains(&peer), "{warning}");
}

#[tokio::test]
async fn a_client_without_a_certificate_of_the_authority_is_refused() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.write(folder.path());
    let ca = folder.path().join("clients.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let mut config = config();
    config.tls = TlsConfig {
        client_ca: Some(ca),
        ..tls(folder.path())
    };
    let site = Site::open(config).await;
    let head = site.head("GET", "/health/live", "connection: close\r\n");
    let foreign = Authority::new().issue();
    for (own, is_served) in [
        (Some(authority.issue()), true),
        (Some(foreign), false),
        (None, false),
    ] {
        let client = client(&authority, own.as_ref(), b"http/1.1");
        let said = match connect(&site, &client).await {
            Ok(mut stream) => {
                let _ = stream.write_all(head.as_bytes()).await;
                rest(&mut stream).await
            }
            Err(_) => String::new(),
        };
        assert_eq!(said.contains("200 OK"), is_served, "{said}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let config = tls(folder.path());
    let refused = || Tls::open(&config).unwrap_err().to_string();
    assert!(refused().contains("tls.certificate"));
    authority.write(folder.path());
    assert!(Tls::open(&config).unwrap().is_some());
    let (_, other_key) = authority.issue();
    std::fs::write(folder.path().join("server.key"), other_key).unwrap();
    assert!(
        refused().contains("tls.certificate and tls.key"),
        "{}",
        refused()
    );
    std::fs::write(folder.path().join("server.key"), "").unwrap();
    assert!(refused().contains("tls.key"));
    assert!(Tls::open(&TlsConfig::default()).unwrap().is_none());
}
