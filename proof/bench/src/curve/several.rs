//! Servers beyond one: encrypted, with a replica, as a cluster.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::Failure;
use crate::redis_server::{Persistence, RedisServer, Role};

/// Masters of the cluster.
const MASTERS: usize = 3;
/// Slots of a cluster; the specification of Redis Cluster says so.
const SLOTS: usize = 16_384;
/// How often it is asked whether servers have found each other.
const PAUSE: Duration = Duration::from_millis(10);

/// What stands behind a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// One server, which writes nothing to disk.
    One,
    /// The same over TLS.
    Encrypted,
    /// A master with a replica that nobody waits for.
    Replica,
    /// The same, and each write waits for the replica.
    Confirmed,
    /// Three masters; the type has so many shards.
    Cluster(u32),
}

/// Servers that run until this is dropped.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) url: String,
    /// Those that take writes.
    pub(super) masters: Vec<RedisServer>,
    _replica: Option<RedisServer>,
    _folder: Option<TempDir>,
}

impl Setup {
    pub(super) fn name(self) -> String {
        match self {
            Self::One => "one server".to_owned(),
            Self::Encrypted => "one server, TLS".to_owned(),
            Self::Replica => "a master and its replica".to_owned(),
            Self::Confirmed => "the same, `replicated`".to_owned(),
            Self::Cluster(1) => "a cluster of 3, 1 shard".to_owned(),
            Self::Cluster(shards) => format!("a cluster of 3, {shards} shards"),
        }
    }

    pub(super) fn shards(self) -> u32 {
        match self {
            Self::Cluster(shards) => shards,
            _ => 1,
        }
    }

    pub(super) async fn start(self) -> Result<Servers, Failure> {
        match self {
            Self::One => Ok(alone(RedisServer::start(Persistence::None, &[]))),
            Self::Encrypted => encrypted(),
            Self::Replica => replicated("memory").await,
            Self::Confirmed => replicated("replicated").await,
            Self::Cluster(_) => cluster().await,
        }
    }
}

fn alone(server: RedisServer) -> Servers {
    Servers {
        url: format!("{}?durability=memory", server.url()),
        masters: vec![server],
        _replica: None,
        _folder: None,
    }
}

/// The client trusts the server's certificate, and no other.
fn encrypted() -> Result<Servers, Failure> {
    let folder = tempfile::tempdir()?;
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let (certificate, key) = (folder.path().join("own.pem"), folder.path().join("own.key"));
    std::fs::write(&certificate, own.cert.pem())?;
    std::fs::write(&key, own.signing_key.serialize_pem())?;
    let [certificate, key] = [certificate, key].map(|file| file.display().to_string());
    // TLS on the port that the fixture asks is not understood there, so it listens at another one
    // too: below those that the fixture takes, as systems give the ones above to outgoing
    // connections.
    let server = RedisServer::start(Persistence::None, &[]);
    let port = server
        .port()
        .checked_sub(10_000)
        .ok_or("a port")?
        .to_string();
    let settings = [
        ["tls-cert-file", &certificate],
        ["tls-key-file", &key],
        ["tls-ca-cert-file", &certificate],
        ["tls-auth-clients", "no"],
        ["tls-port", &port],
    ];
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_connection()?;
    let mut set = redis::cmd("CONFIG");
    set.arg("SET");
    for setting in settings {
        set.arg(&setting);
    }
    set.exec(&mut connection)?;
    Ok(Servers {
        url: format!("rediss://127.0.0.1:{port}?durability=memory&ca={certificate}"),
        _folder: Some(folder),
        ..alone(server)
    })
}

async fn replicated(class: &str) -> Result<Servers, Failure> {
    let master = RedisServer::start(
        Persistence::None,
        &[
            "--min-replicas-to-write",
            "1",
            "--repl-diskless-sync-delay",
            "0",
        ],
    );
    let follow = format!("127.0.0.1 {}", master.port());
    let replica = RedisServer::start(Persistence::None, &["--replicaof", &follow]);
    let mut connection = connect(&master).await?;
    // The master knows of its replica before that has everything.
    while !told(&mut connection, &["INFO", "replication"], "state=online").await? {
        sleep(PAUSE).await;
    }
    Ok(Servers {
        url: format!("{}?durability={class}", master.url()),
        masters: vec![master],
        _replica: Some(replica),
        _folder: None,
    })
}

async fn cluster() -> Result<Servers, Failure> {
    let start = |_| RedisServer::start_as(Role::Node, Persistence::None, &[]);
    let masters: Vec<RedisServer> = (0..MASTERS).map(start).collect();
    let (first, bus) = match masters.first() {
        Some(first) => (first.port().to_string(), first.bus_port().to_string()),
        None => return Err("a cluster has masters".into()),
    };
    for (number, master) in masters.iter().enumerate() {
        let mut connection = connect(master).await?;
        let share = |number: usize| number * SLOTS / MASTERS;
        let (from, to) = (
            share(number).to_string(),
            (share(number + 1) - 1).to_string(),
        );
        let epoch = (number + 1).to_string();
        for words in [
            ["CLUSTER", "SET-CONFIG-EPOCH", &epoch, ""]
                .as_slice()
                .get(..3),
            ["CLUSTER", "ADDSLOTSRANGE", &from, &to].as_slice().get(..),
            ["CLUSTER", "MEET", "127.0.0.1", &first, &bus]
                .as_slice()
                .get(..),
        ] {
            command(words.unwrap_or_default())
                .exec_async(&mut connection)
                .await?;
        }
    }
    for master in &masters {
        let mut connection = connect(master).await?;
        let known = format!("cluster_known_nodes:{MASTERS}\r");
        for wanted in ["cluster_state:ok", &known] {
            while !told(&mut connection, &["CLUSTER", "INFO"], wanted).await? {
                sleep(PAUSE).await;
            }
        }
    }
    let nodes: Vec<_> = masters
        .iter()
        .map(|node| format!("127.0.0.1:{}", node.port()))
        .collect();
    Ok(Servers {
        url: format!("redis-cluster://{}?durability=memory", nodes.join(",")),
        masters,
        _replica: None,
        _folder: None,
    })
}

pub(super) async fn connect(server: &RedisServer) -> Result<MultiplexedConnection, Failure> {
    let client = redis::Client::open(server.url())?;
    Ok(client.get_multiplexed_async_connection().await?)
}

fn command(words: &[&str]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command
}

async fn told(
    connection: &mut MultiplexedConnection,
    words: &[&str],
    wanted: &str,
) -> Result<bool, Failure> {
    let text: String = command(words).query_async(connection).await?;
    Ok(text.contains(wanted))
}

#[cfg(test)]
mod tests {
    use delayq_core::store::StoreOptions;
    use delayq_plugin::open_store;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn each_of_them_can_be_used() {
        for setup in [Setup::Encrypted, Setup::Confirmed, Setup::Cluster(6)] {
            let servers = setup.start().await.unwrap();
            let store = open_store(&servers.url, StoreOptions::default()).await;
            store.unwrap().check().await.unwrap();
        }
    }
}
