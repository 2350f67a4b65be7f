//! The server of one round: fresh, on a free port of 127.0.0.1, gone with the round.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::Failure;
use crate::meter::Meter;
use crate::postgres_server::PostgresServer;
use crate::redis_server::{Persistence, RedisServer};
use crate::stage::{LARGE_FILE, POSTGRES};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(5);
/// beanstalkd syncs its binlog as often as Redis its append-only file.
const SYNC_MS: &str = "1000";

/// The database of a contender.
const DATABASE: &str = "bench";

/// What a contender runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Redis,
    Postgres,
    Beanstalkd,
    BeanstalkdWithBinlog,
}

/// A server that runs.
#[derive(Debug)]
pub(crate) enum Place {
    Redis(RedisServer),
    Postgres(PostgresServer),
    Beanstalkd {
        child: Child,
        port: u16,
        _folder: TempDir,
    },
}

impl Place {
    pub(crate) async fn start(kind: Kind) -> Result<Self, Failure> {
        if kind == Kind::Redis {
            let start = || RedisServer::start(Persistence::EverySecond, &LARGE_FILE);
            return Ok(Self::Redis(tokio::task::spawn_blocking(start).await?));
        }
        if kind == Kind::Postgres {
            let start = || {
                let server = PostgresServer::start(&POSTGRES);
                server.create_database(DATABASE);
                server
            };
            return Ok(Self::Postgres(tokio::task::spawn_blocking(start).await?));
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let folder = tempfile::Builder::new()
            .prefix("delayq-beanstalkd-")
            .tempdir()?;
        let mut command = Command::new("beanstalkd");
        command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
        if kind == Kind::BeanstalkdWithBinlog {
            command.args(["-f", SYNC_MS, "-b"]).arg(folder.path());
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.kill_on_drop(true).spawn()?;
        let listens = async {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .await
                .is_err()
            {
                sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, listens)
            .await
            .map_err(|_| "beanstalkd does not listen")?;
        Ok(Self::Beanstalkd {
            child,
            port,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres(server) => server.url_of(DATABASE),
            Self::Beanstalkd { port, .. } => format!("beanstalkd://127.0.0.1:{port}"),
        }
    }

    pub(crate) fn pid(&self) -> Result<u32, Failure> {
        let pid = match self {
            Self::Redis(server) => server.pid(),
            Self::Postgres(server) => server.pid(),
            Self::Beanstalkd { child, .. } => child.id(),
        };
        pid.ok_or_else(|| "the server has ended".into())
    }

    /// What a PostgreSQL server has counted, once a program has ended: the bytes of its log, and
    /// its transactions.
    pub(crate) async fn counted(&self) -> Result<[u64; 2], Failure> {
        let Self::Postgres(server) = self else {
            return Err("this case is about PostgreSQL only".into());
        };
        let meter = Meter::connect(&server.url(), self.pid()?).await?;
        let commits = meter.commits(DATABASE).await?;
        Ok([meter.wal().await?, commits])
    }

    /// Ends the server, and returns once it has gone.
    pub(crate) async fn end(self) -> Result<(), Failure> {
        match self {
            Self::Redis(server) => tokio::task::spawn_blocking(move || drop(server)).await?,
            Self::Postgres(server) => tokio::task::spawn_blocking(move || drop(server)).await?,
            Self::Beanstalkd { mut child, .. } => child.kill().await?,
        }
        Ok(())
    }
}
