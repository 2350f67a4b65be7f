//! Encrypted connections: whom each side trusts, and what a refusal says.

use std::path::Path;
use std::time::Duration;

use delayq_core::store::StoreOptions;
use delayq_core::{Error, Operate, Store};
use delayq_redis::RedisStore;
use delayq_tests::liveness::{ask, until_ok};
use delayq_tests::redis_server::Role;
use delayq_tests::rig::PATIENCE;

use super::access::use_every_operation;
use super::certificates::{server, start_as, url, write_certificates};
use super::{accept, impatient, job, options};

/// Set in a process that is to connect and do nothing else.
const URL: &str = "DELAYQ_TEST_TLS_URL";

/// Runs the test `name` once more, in a process of its own: where the system's certificates are
/// holds for a whole process. Returns what it wrote.
fn rerun(name: &str, (variable, file): (&str, &Path), url: &str) -> String {
    let mut test = std::process::Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", name, "--nocapture"])
        .env(variable, file)
        .env(URL, url);
    let output = test.output().unwrap();
    [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat()
}

#[tokio::test]
async fn tls_trusts_the_authority_it_is_given_and_no_other() {
    if let Ok(url) = std::env::var(URL) {
        let store = RedisStore::connect(&url, options()).await.unwrap();
        use_every_operation(&store).await;
        return;
    }
    let folder = write_certificates();
    let (_server, port) = server(folder.path(), "server", false);
    let url = url(folder.path(), port, "");
    let message = refusal(&url).await;
    assert!(message.contains("write ca=FILE"), "{message}");
    let ca = folder.path().join("ca.pem");
    let name = "tls::tls_trusts_the_authority_it_is_given_and_no_other";
    let output = rerun(name, ("SSL_CERT_FILE", &ca), &url);
    assert!(output.contains("1 passed"), "{output}");
}

/// The client reads those of the system for each connection, also when it is given an authority.
#[tokio::test]
async fn certificates_of_the_system_may_be_missing_and_not_unreadable() {
    if let Ok(url) = std::env::var(URL) {
        RedisStore::connect(&url, options()).await.unwrap();
        return;
    }
    let folder = write_certificates();
    let (_server, port) = server(folder.path(), "server", false);
    let url = url(folder.path(), port, "ca=FOLDER/ca.pem");
    let (empty, gone) = (folder.path().join("empty"), folder.path().join("gone"));
    std::fs::write(&empty, "").unwrap();
    for (variable, file, expected) in [
        ("SSL_CERT_FILE", &empty, "1 passed"),
        (
            "SSL_CERT_FILE",
            &gone,
            "SSL_CERT_FILE may name the same file as ca=",
        ),
        (
            "SSL_CERT_DIR",
            &gone,
            "SSL_CERT_FILE may name the same file as ca=",
        ),
    ] {
        let name = "tls::certificates_of_the_system_may_be_missing_and_not_unreadable";
        let output = rerun(name, (variable, file), &url);
        assert!(output.contains(expected), "{variable}: {output}");
    }
}

#[tokio::test]
async fn tls_without_trust_has_to_be_asked_for() {
    let folder = write_certificates();
    let (_server, port) = server(folder.path(), "server", false);
    let url = format!("rediss://127.0.0.1:{port}/#insecure");
    let store = RedisStore::connect(&url, options()).await.unwrap();
    assert_eq!(store.name(), format!("rediss://127.0.0.1:{port}/0"));
    accept(&store, job("1")).await;
}

const CLIENT: &str = "ca=FOLDER/ca.pem&cert=FOLDER/client.pem&key=FOLDER/client.key";

#[tokio::test]
async fn both_sides_show_a_certificate_of_the_authority_they_are_given() {
    let folder = write_certificates();
    let (_server, port) = server(folder.path(), "server", true);
    let url = url(folder.path(), port, CLIENT);
    let store = RedisStore::connect(&url, options()).await.unwrap();
    use_every_operation(&store).await;
}

async fn refusal(url: &str) -> String {
    let error = RedisStore::connect(url, options()).await.unwrap_err();
    assert!(matches!(error, Error::Misconfigured { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn a_server_that_is_not_trusted_is_refused_with_what_to_change() {
    let folder = write_certificates();
    let folder = folder.path();
    let (_server, port) = server(folder, "server", false);
    let (_expired, expired) = server(folder, "server-expired", false);
    let (_self_signed, self_signed) = server(folder, "ca", false);
    for (url, what, fix) in [
        (
            url(folder, port, ""),
            "not signed by an authority",
            "write ca=FILE",
        ),
        (
            url(folder, port, "ca=FOLDER/other-ca.pem"),
            "not signed by an authority",
            "write ca=FILE",
        ),
        (
            url(folder, port, "ca=FOLDER/ca.pem").replace("127.0.0.1", "localhost"),
            "for another host",
            "a name that stands in the certificate",
        ),
        (
            url(folder, expired, "ca=FOLDER/ca.pem"),
            "has expired",
            "renew the file of its `tls-cert-file`",
        ),
        (
            url(folder, self_signed, "ca=FOLDER/ca.pem"),
            "cannot be used",
            "signed by an authority",
        ),
    ] {
        let message = refusal(&url).await;
        assert!(message.contains(what), "{message}");
        assert!(message.contains(fix), "{message}");
    }
}

#[tokio::test]
async fn a_client_that_is_not_trusted_is_told_what_to_change() {
    let folder = write_certificates();
    let folder = folder.path();
    let (_server, port) = server(folder, "server", true);
    let client = |name| CLIENT.replace("/client.", &format!("/{name}."));
    for (query, what, fix) in [
        (
            "ca=FOLDER/ca.pem".to_owned(),
            "asks for a certificate",
            "write cert=FILE and key=FILE",
        ),
        (
            client("client-other"),
            "does not trust the authority",
            "`tls-ca-cert-file`",
        ),
        (
            client("client-expired"),
            "of this client has expired",
            "renew the file that cert= names",
        ),
    ] {
        let message = refusal(&url(folder, port, &query)).await;
        assert!(message.contains(what), "{message}");
        assert!(message.contains(fix), "{message}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named_before_anything_connects() {
    let folder = write_certificates();
    let folder = folder.path();
    std::fs::write(folder.join("empty.pem"), "").unwrap();
    for (wrong, right, what) in [
        ("ca.pem", "gone.pem", "the CA in FILE: it cannot be read"),
        (
            "client.pem",
            "gone.pem",
            "the certificate in FILE: it cannot be read",
        ),
        (
            "client.key",
            "gone.key",
            "the key in FILE: it cannot be read",
        ),
        (
            "ca.pem",
            "empty.pem",
            "the CA in FILE: it does not hold a certificate",
        ),
        (
            "ca.pem",
            "client.key",
            "the CA in FILE: it does not hold a certificate",
        ),
        (
            "client.key",
            "ca.pem",
            "the key in FILE: it does not hold a key",
        ),
        (
            "client.key",
            "server.key",
            "the key in FILE: it is not the key of the certificate in",
        ),
    ] {
        let query = CLIENT.replace(&format!("FOLDER/{wrong}"), &format!("FOLDER/{right}"));
        // Nothing listens at this port.
        let refused = RedisStore::connect(&url(folder, 1, &query), options()).await;
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::InvalidInput { .. }), "{error:?}");
        let file = folder.join(right).display().to_string();
        let what = what.replace("FILE", &file);
        assert!(error.to_string().contains(&what), "{error}");
    }
}

#[tokio::test]
async fn a_port_that_speaks_plainly_and_one_that_does_not_are_told_apart() {
    let folder = write_certificates();
    let (plain, port) = server(folder.path(), "server", false);
    for (url, what) in [
        (format!("redis://127.0.0.1:{port}"), "write rediss://"),
        (plain.url().replace("redis:", "rediss:"), "write redis://"),
    ] {
        let refused = RedisStore::connect(&url, impatient()).await;
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[tokio::test]
async fn sentinels_and_the_master_they_name_are_both_encrypted() {
    let folder = write_certificates();
    let folder = folder.path();
    let (_master, port) = server(folder, "server", true);
    let watch = || Role::Sentinel(vec![format!("sentinel monitor orders 127.0.0.1 {port} 1")]);
    let (_sentinel, port) = start_as(watch(), folder, "server", true);
    let sentinels = |query: &str, port: u16| {
        let url = url(folder, port, query).replace("rediss:", "rediss-sentinel:");
        url.replace("/?", "/orders?")
    };
    // A sentinel has little time for its answer, and on a busy machine not always enough.
    let connect = || async {
        let connected = RedisStore::connect(&sentinels(CLIENT, port), options()).await;
        connected.map_err(|error| error.to_string())
    };
    let store = until_ok("the sentinel's answer", connect).await;
    use_every_operation(&store).await;
    let (_expired, expired) = start_as(watch(), folder, "server-expired", false);
    for (url, fix) in [
        (
            sentinels("ca=FOLDER/ca.pem", port),
            "write cert=FILE and key=FILE",
        ),
        (sentinels("ca=FOLDER/other-ca.pem", port), "write ca=FILE"),
        (
            sentinels(CLIENT, expired),
            "renew the file of its `tls-cert-file`",
        ),
    ] {
        let refused = RedisStore::connect(&url, options()).await;
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(fix), "{message}");
    }
}

/// Where a slot is, one node tells of the other: its port for TLS, not the plain one.
#[tokio::test]
async fn all_nodes_of_a_cluster_are_encrypted() {
    let folder = write_certificates();
    let folder = folder.path();
    let node = || start_as(Role::Node, folder, "server", true);
    let nodes = [node(), node()];
    let tell = async |node: usize, words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        ask::<()>(&nodes[node].0.url(), &words).await.unwrap();
    };
    tell(0, "CLUSTER ADDSLOTSRANGE 0 8191").await;
    tell(1, "CLUSTER ADDSLOTSRANGE 8192 16383").await;
    tell(1, "CLUSTER SET-CONFIG-EPOCH 2").await;
    let (port, bus) = (nodes[1].1, nodes[1].0.bus_port());
    tell(0, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}")).await;
    let works = async || {
        for (node, _) in &nodes {
            let info: String = ask(&node.url(), &["CLUSTER", "INFO"]).await.unwrap();
            if !info.contains("cluster_state:ok") {
                return Err(info);
            }
        }
        Ok(())
    };
    until_ok("a cluster that works", works).await;
    // Only one of them is named.
    let url = url(folder, nodes[0].1, CLIENT).replace("rediss:", "rediss-cluster:");
    let store = RedisStore::connect(&url, options()).await.unwrap();
    use_every_operation(&store).await;
    for n in 0..20 {
        let task_type = format!("type-{n}").parse().unwrap();
        store.register_type(&task_type).await.unwrap();
    }
    for (node, tls) in &nodes {
        let clients: String = ask(&node.url(), &["CLIENT", "LIST"]).await.unwrap();
        let own = clients.lines().filter(|line| line.contains("cmd=client"));
        let plain = format!("laddr=127.0.0.1:{} ", node.port());
        let all = clients.lines().filter(|line| line.contains(&plain));
        assert_eq!(
            all.count(),
            own.count(),
            "only this look is plain: {clients}"
        );
        assert!(
            clients.contains(&format!("laddr=127.0.0.1:{tls} ")),
            "{clients}"
        );
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_used_from_the_next_connection_on() {
    let folder = write_certificates();
    let folder = folder.path();
    let (mut server, port) = server(folder, "server", true);
    let url = url(folder, port, CLIENT);
    // Long enough for a handshake on a busy machine.
    let options = StoreOptions {
        call_timeout: Duration::from_secs(10),
        ..options()
    };
    let store = RedisStore::connect(&url, options).await.unwrap();
    let renew = |name: &str| {
        for kind in ["pem", "key"] {
            let of = |name| folder.join(format!("{name}.{kind}"));
            std::fs::copy(of(name), of("client")).unwrap();
        }
    };
    let good = ["pem", "key"].map(|kind| folder.join(format!("client.{kind}")));
    let kept = good.each_ref().map(|file| std::fs::read(file).unwrap());
    renew("client-expired");
    server.restart();
    // A server that hangs up while the client still writes is a broken pipe now and then.
    let expired = async || match store.check().await.unwrap_err().to_string() {
        error if error.contains("of this client has expired") => Ok(()),
        error => Err(error),
    };
    until_ok("an expired certificate", expired).await;
    for (file, bytes) in good.iter().zip(kept) {
        std::fs::write(file, bytes).unwrap();
    }
    // The next attempt to connect is at most half a second away.
    let accepted = async { while store.check().await.is_err() {} };
    tokio::time::timeout(PATIENCE, accepted).await.unwrap();
}
