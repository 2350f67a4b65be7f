//! A connection to the Redis of lmstfy, with the small part of its protocol that a move needs.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use url::Url;

/// The time limit of a command.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of one value in an answer.
const MAX_BYTES: usize = 512 << 20;

/// The reason why a move ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LmstfyError {
    /// The address is invalid.
    #[error("{0}: write redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]")]
    Address(String),
    /// The Redis of lmstfy cannot be reached.
    #[error("the Redis of lmstfy: {0}")]
    Io(#[from] io::Error),
    /// It refused a command.
    #[error("the Redis of lmstfy answered: {0}")]
    Refused(String),
    /// The store failed; jobs already taken out are sent by the next move.
    #[error("{0}: the same command goes on from here")]
    Store(#[from] delayq_plugin::Error),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RespValue {
    Nothing,
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Self>),
}

impl RespValue {
    pub(super) fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            _ => 0,
        }
    }

    pub(super) fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn list(self) -> Vec<Self> {
        match self {
            Self::List(list) => list,
            _ => Vec::new(),
        }
    }
}

/// A connection to the Redis of lmstfy.
#[derive(Debug)]
pub(super) struct OldRedis<S = TcpStream>(BufStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> OldRedis<S> {
    pub(super) fn over(stream: S) -> Self {
        Self(BufStream::new(stream))
    }

    /// Sends a command and returns its answer.
    pub(super) async fn ask(&mut self, command: &[&[u8]]) -> Result<RespValue, LmstfyError> {
        let mut text = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            text.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            text.extend_from_slice(part);
            text.extend_from_slice(b"\r\n");
        }
        let exchange = async {
            self.0.write_all(&text).await?;
            self.0.flush().await?;
            self.answer().await
        };
        within(exchange).await?.map_err(LmstfyError::Refused)
    }

    /// The next answer, or the refusal of the command.
    pub(super) async fn answer(&mut self) -> io::Result<Result<RespValue, String>> {
        let mut open: Vec<(usize, Vec<RespValue>)> = Vec::new();
        loop {
            let mut reply = match self.value().await? {
                Err(refusal) => return Ok(Err(refusal)),
                Ok((reply, 0)) => reply,
                Ok((_, count)) => {
                    open.push((count, Vec::new()));
                    continue;
                }
            };
            loop {
                let Some((count, list)) = open.last_mut() else {
                    return Ok(Ok(reply));
                };
                list.push(reply);
                if list.len() < *count {
                    break;
                }
                let list = open.pop().map(|(_, list)| list);
                reply = RespValue::List(list.unwrap_or_default());
            }
        }
    }

    /// A value and, for a list, the number of its elements.
    async fn value(&mut self) -> io::Result<Result<(RespValue, usize), String>> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).await?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        let (kind, rest) = line
            .split_at_checked(1)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        let number = || -> io::Result<i64> {
            let number = rest.parse();
            number.map_err(|_| io::Error::other(format!("is this a Redis? {line:.40}")))
        };
        Ok(Ok(match kind {
            "+" => (RespValue::Bytes(rest.as_bytes().to_vec()), 0),
            "-" => return Ok(Err(rest.to_owned())),
            ":" => (RespValue::Number(number()?), 0),
            "$" => match usize::try_from(number()?) {
                Ok(length) if length <= MAX_BYTES => {
                    let mut bytes = vec![0; length + 2];
                    self.0.read_exact(&mut bytes).await?;
                    bytes.truncate(length);
                    (RespValue::Bytes(bytes), 0)
                }
                Ok(_) => return Err(io::Error::other("a value is too large")),
                Err(_) => (RespValue::Nothing, 0),
            },
            "*" => match usize::try_from(number()?) {
                Ok(0) => (RespValue::List(Vec::new()), 0),
                Ok(count) => (RespValue::Nothing, count),
                Err(_) => (RespValue::Nothing, 0),
            },
            _ => return Err(io::Error::other(format!("is this a Redis? {line:.40}"))),
        }))
    }
}

/// Connects to the Redis at an address, and logs in.
pub(super) async fn connect(address: &str) -> Result<OldRedis, LmstfyError> {
    let bad = |reason: &str| LmstfyError::Address(reason.to_owned());
    let url = Url::parse(address).map_err(|error| bad(&error.to_string()))?;
    if url.scheme() != "redis" {
        return Err(bad("only redis:// can be moved from; use a tunnel for TLS"));
    }
    let host = url.host_str().ok_or_else(|| bad("it has no host"))?;
    let host = host.trim_matches(['[', ']']);
    let connecting = TcpStream::connect((host, url.port().unwrap_or(6379)));
    let stream = within(connecting).await?;
    let mut redis = OldRedis::over(stream);
    if let Some(password) = url.password() {
        let plain =
            |text: &str| -> Vec<u8> { percent_encoding::percent_decode_str(text).collect() };
        let (user, password) = (plain(url.username()), plain(password));
        let mut command: Vec<&[u8]> = vec![b"AUTH"];
        if !user.is_empty() {
            command.push(&user);
        }
        command.push(&password);
        redis.ask(&command).await?;
    }
    let database = url.path().trim_matches('/');
    if !database.is_empty() {
        redis.ask(&[b"SELECT", database.as_bytes()]).await?;
    }
    Ok(redis)
}

async fn within<T>(call: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = tokio::time::timeout(PATIENCE, call).await;
    done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
