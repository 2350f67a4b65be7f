//! Certificates, and servers that show them.

use std::path::Path;

use delayq_tests::redis_server::{Persistence, RedisServer, Role};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A private authority: the files `NAME.pem` and `NAME.key` in `folder`.
fn authority(folder: &Path, name: &str) -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join(format!("{name}.pem")), authority.pem()).unwrap();
    let key = authority.key().serialize_pem();
    std::fs::write(folder.join(format!("{name}.key")), key).unwrap();
    authority
}

/// Signs a certificate for `host`: the files `NAME.pem` and `NAME.key` in `folder`.
fn issue(authority: &Issuer, folder: &Path, name: &str, host: &str, is_expired: bool) {
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    if is_expired {
        params.not_after = date_time_ymd(2020, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
    std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

/// Certificates: a good authority and another one, and what they have signed.
pub(super) fn write_certificates() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (good, other) = (authority(path, "ca"), authority(path, "other-ca"));
    issue(&good, path, "server", "127.0.0.1", false);
    issue(&good, path, "server-expired", "127.0.0.1", true);
    issue(&good, path, "client", "client", false);
    issue(&good, path, "client-expired", "client", true);
    issue(&other, path, "client-other", "client", false);
    folder
}

/// A server that shows the certificate `name`, and asks for one of the good authority if it
/// `is_strict`.
pub(super) fn server(folder: &Path, name: &str, is_strict: bool) -> (RedisServer, u16) {
    start_as(Role::Alone, folder, name, is_strict)
}

/// A server, or a sentinel, and its port for TLS. The fixture looks after a plain port beside it.
pub(super) fn start_as(
    role: Role,
    folder: &Path,
    name: &str,
    is_strict: bool,
) -> (RedisServer, u16) {
    let file = |name: String| folder.join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file(format!("{name}.pem")), file(format!("{name}.key")));
    let mut port = fastrand::u16(20_000..29_000);
    while std::net::TcpListener::bind(("127.0.0.1", port)).is_err() {
        port += 1;
    }
    let settings = [
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", certificate),
        ("--tls-key-file", key),
        ("--tls-ca-cert-file", file("ca.pem".to_owned())),
        (
            "--tls-auth-clients",
            if is_strict { "yes" } else { "no" }.to_owned(),
        ),
        ("--tls-replication", "yes".to_owned()),
        // Otherwise nodes tell each other's plain ports alone.
        ("--tls-cluster", "yes".to_owned()),
    ];
    let words: Vec<_> = settings
        .iter()
        .flat_map(|(name, value)| [*name, value])
        .collect();
    (RedisServer::start_as(role, Persistence::None, &words), port)
}

/// `FOLDER/` stands for the folder.
pub(super) fn url(folder: &Path, port: u16, query: &str) -> String {
    let folder = format!("{}/", folder.display());
    let query = query.replace("FOLDER/", &folder);
    format!("rediss://127.0.0.1:{port}/?{query}")
}
