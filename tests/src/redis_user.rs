//! The user of the guide, who may do what delayq needs and nothing else.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "tests: a panic is a failure"
)]

use crate::redis_server::RedisServer;

/// What comes before the rights in the guide.
const BEFORE: &str = "ACL SETUSER delayq on >PASSWORD ";

/// The rights that the guide gives a user, as they stand there.
#[must_use]
pub fn rights() -> &'static str {
    let guide = include_str!("../../docs/guide/redis.md");
    let mut rights = guide.lines().filter_map(|line| line.strip_prefix(BEFORE));
    rights.next().expect("the guide has a line with the rights")
}

/// Makes a user `name` with the password `hunter2` and these rights and no others; returns the URL.
#[must_use]
pub fn add(server: &RedisServer, name: &str, rights: &str) -> String {
    let mut rules = vec![name, "reset", "on", ">hunter2"];
    rules.extend(rights.split_whitespace());
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg(rules);
    command.exec(&mut connection).unwrap();
    url(server, name)
}

/// The URL of a user with the password `hunter2`.
#[must_use]
pub fn url(server: &RedisServer, name: &str) -> String {
    format!("redis://{name}:hunter2@127.0.0.1:{}", server.port())
}

/// Makes the user of the guide and one for the tests, `admin`, and shuts everybody else out.
pub fn restrict(server: &RedisServer) {
    let _ = add(server, "delayq", rights());
    let _ = add(server, "admin", "~* &* +@all");
    let _ = add(server, "default", "resetpass off");
}
