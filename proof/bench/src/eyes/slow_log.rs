//! What a Redis says took long.

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};

use crate::Failure;

/// Entries that the server keeps until they are taken.
const KEPT: i64 = 1_000;
/// Shorter commands are not logged: to log what a script calls would make the script slow.
pub(crate) const LOGGED_US: i64 = 1_000;
/// Bytes of an argument that are shown.
const SHOWN: usize = 24;
/// Arguments that are shown.
const ARGUMENTS: usize = 8;

/// A command that the server ran.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) ms: f64,
    pub(crate) command: String,
}

/// The server's log of commands that take a millisecond and more.
pub(crate) struct SlowLog {
    connection: MultiplexedConnection,
}

impl SlowLog {
    pub(crate) async fn begin(url: &str) -> Result<Self, Failure> {
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        for (setting, value) in [
            ("slowlog-max-len", KEPT),
            ("slowlog-log-slower-than", LOGGED_US),
        ] {
            let mut set = redis::cmd("CONFIG");
            let set = set.arg("SET").arg(setting).arg(value);
            set.query_async::<()>(&mut connection).await?;
        }
        let mut log = Self { connection };
        log.take().await?;
        Ok(log)
    }

    /// The longest commands since the last time, the longest first.
    pub(crate) async fn take(&mut self) -> Result<Vec<Entry>, Failure> {
        let mut get = redis::cmd("SLOWLOG");
        let get = get.arg("GET").arg(KEPT);
        let told: Vec<Vec<Value>> = get.query_async(&mut self.connection).await?;
        let mut reset = redis::cmd("SLOWLOG");
        let reset = reset.arg("RESET");
        reset.query_async::<()>(&mut self.connection).await?;
        let entries = told.into_iter().map(Entry::read);
        let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by(|one, other| other.ms.total_cmp(&one.ms));
        Ok(entries)
    }
}

impl Entry {
    /// Of number, time, microseconds, arguments and who called.
    fn read(fields: Vec<Value>) -> Result<Self, Failure> {
        let mut fields = fields.into_iter().skip(2);
        let mut next = || fields.next().unwrap_or(Value::Nil);
        let micros = u32::from_redis_value(next())?;
        let arguments = Vec::<Vec<u8>>::from_redis_value(next())?;
        let said = |argument: &Vec<u8>| {
            let text = String::from_utf8_lossy(argument);
            text.chars().take(SHOWN).collect::<String>()
        };
        let said: Vec<_> = arguments.iter().take(ARGUMENTS).map(said).collect();
        Ok(Self {
            ms: f64::from(micros) / 1_000.0,
            command: said.join(" ").escape_debug().to_string(),
        })
    }
}
