//! A password is shown nowhere, whatever fails.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};

use delayq_core::Store;
use delayq_redis::{RedisConfig, RedisStore};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::redis_user;
use tracing_subscriber::fmt::MakeWriter;

use super::impatient;

/// In every password of these tests.
const CANARY: &str = "canary";

/// Everything that this process writes to its log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Answers whatever comes with `answer`; with nothing, if that is empty.
fn answer_all_with(answer: &'static str) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let (mut connection, mut bytes) = (connection, [0; 4096]);
                while connection.read(&mut bytes).is_ok_and(|count| count > 0)
                    && connection.write_all(answer.as_bytes()).is_ok()
                {}
            });
        }
    });
    port
}

/// A server, and the beginning of a URL that it refuses.
fn refusing() -> (Vec<RedisServer>, Vec<String>) {
    let url = |user: &str, port: u16| format!("redis://{user}:{CANARY}@127.0.0.1:{port}");
    let start = |extra: &[&str]| RedisServer::start(Persistence::None, extra);
    let (plain, locked) = (start(&[]), start(&["--requirepass", "other"]));
    let renamed = start(&["--rename-command", "HELLO", "a"]);
    let may_nothing = redis_user::add(&plain, "nobody", &format!(">{CANARY}"));
    let may_little = redis_user::add(&plain, "little", &format!(">{CANARY} ~* &* +@all -zadd"));
    let urls = vec![
        url("", 1),
        url("user", 1).replace("redis:", "rediss:"),
        url("", locked.port()),
        url("", plain.port()),
        url("user", locked.port()),
        url("user", renamed.port()),
        url("", renamed.port()),
        url("", locked.port()).replace("redis:", "rediss:"),
        url("", answer_all_with("")),
        url("", answer_all_with("no Redis\r\n")),
        url(
            "",
            answer_all_with("-ERR what is HELLO 3 AUTH default canary\r\n"),
        ),
        url("", answer_all_with("-canary what\r\n")),
        format!(
            "redis-sentinel://127.0.0.1:{}/a?sentinel_password={CANARY}",
            answer_all_with("-ERR what is HELLO 3 AUTH default canary\r\n")
        ),
        format!(
            "redis-sentinel://127.0.0.1:{}/a?sentinel_user=a&sentinel_password={CANARY}",
            locked.port()
        ),
        url("user", locked.port()).replace("redis:", "redis-cluster:"),
        url("user", renamed.port()).replace("redis:", "redis-cluster:"),
        may_nothing.replace("hunter2", CANARY),
        may_little.replace("hunter2", CANARY),
        format!("{}/99", url("", plain.port())),
    ];
    (vec![plain, locked, renamed], urls)
}

#[tokio::test]
async fn a_password_is_in_no_error_and_no_log() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
    subscriber.with_ansi(false).with_writer(log.clone()).init();
    let (mut servers, urls) = refusing();
    for url in urls {
        let error = match RedisStore::connect(&url, impatient()).await {
            Err(error) => format!("{error} {error:?}"),
            Ok(store) => format!("{store:?} {}", store.name()),
        };
        assert!(!error.contains(CANARY), "{error}");
        let config = RedisConfig::parse(&url).unwrap();
        let shown = format!("{config} {config:?}");
        assert!(!shown.contains(CANARY), "{shown}");
    }
    let url = redis_user::add(&servers[0], "app", &format!(">{CANARY} ~* &* +@all"));
    let store = RedisStore::connect(&url.replace("hunter2", CANARY), impatient())
        .await
        .unwrap();
    servers[0].kill();
    let error = store.check().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(CANARY), "{error}");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("connection lost"), "{log}");
    assert!(!log.contains(CANARY), "{log}");
}
