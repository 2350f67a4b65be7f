//! A kept connection of HTTP/1.1, with as little work of its own as possible: it shares the machine
//! with what it measures.

use std::io::Write;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;
use crate::server::Server;

/// What each line of an answer has once.
const MARK: &[u8] = b"\"line\"";
/// How much is read at once.
const READ_BYTES: usize = 16_384;

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// What each path begins with.
    base: &'static str,
    frame: String,
    request: Vec<u8>,
    received: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// The value of the header `delayq-id`, and of `delayq-lock`.
    pub(crate) task: Option<(String, String)>,
}

impl Connection {
    /// To the types of the namespace `default`.
    pub(crate) async fn open(server: &Server) -> Result<Self, Failure> {
        let header = format!("authorization: Bearer {}\r\n", server.token);
        Self::to(&server.address, "/v1/default/types/", &header).await
    }

    /// To another door, with a header in every request.
    pub(crate) async fn to(
        address: &str,
        base: &'static str,
        header: &str,
    ) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            base,
            frame: format!("host: {address}\r\n{header}"),
            request: Vec::new(),
            received: Vec::new(),
        })
    }

    /// Asks, below the base, and reads the answer.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<Answer, Failure> {
        self.send("POST", path, headers, body).await
    }

    /// Asks by another method, below the base, and reads the answer.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<Answer, Failure> {
        self.request.clear();
        let (base, frame, length) = (self.base, &self.frame, body.len());
        write!(
            self.request,
            "{method} {base}{path} HTTP/1.1\r\n{frame}{headers}content-length: {length}\r\n\r\n"
        )?;
        self.request.extend_from_slice(body);
        self.stream.write_all(&self.request).await?;
        self.answer().await
    }

    /// Sends a body of unknown length part by part, and counts the lines of the answer meanwhile.
    pub(crate) async fn stream(
        self,
        path: &str,
        parts: impl Iterator<Item = Vec<u8>> + Send,
        most: usize,
    ) -> Result<usize, Failure> {
        let (mut reader, mut writer) = self.stream.into_split();
        let (base, frame) = (self.base, self.frame);
        let write = async {
            let head =
                format!("POST {base}{path} HTTP/1.1\r\n{frame}transfer-encoding: chunked\r\n\r\n");
            writer.write_all(head.as_bytes()).await?;
            for part in parts {
                let mut chunk = format!("{:x}\r\n", part.len()).into_bytes();
                chunk.extend(part);
                chunk.extend(b"\r\n");
                writer.write_all(&chunk).await?;
            }
            writer.write_all(b"0\r\n\r\n").await?;
            Ok::<_, Failure>(())
        };
        let count = async {
            let (mut buffer, mut lines, mut tail) = (vec![0; 65_536], 0, Vec::new());
            while lines < most {
                let read = reader.read(&mut buffer).await?;
                if read == 0 {
                    return Err("the answer was cut off".into());
                }
                tail.extend_from_slice(buffer.get(..read).unwrap_or_default());
                lines += tail
                    .windows(MARK.len())
                    .filter(|part| *part == MARK)
                    .count();
                // What is left may be the beginning of another one.
                tail.drain(..tail.len().saturating_sub(MARK.len() - 1));
            }
            Ok::<_, Failure>(lines)
        };
        let (written, lines) = tokio::join!(write, count);
        written?;
        lines
    }

    async fn answer(&mut self) -> Result<Answer, Failure> {
        loop {
            if let Some(answer) = self.take()? {
                return Ok(answer);
            }
            self.received.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err("the connection was closed".into());
            }
        }
    }

    /// A complete answer, once there is one.
    fn take(&mut self) -> Result<Option<Answer>, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(begin) = response.parse(&self.received)? else {
            return Ok(None);
        };
        let status = response.code.unwrap_or_default();
        let named = |name: &str| {
            let mut headers = response.headers.iter();
            let header = headers.find(|header| header.name.eq_ignore_ascii_case(name));
            header.and_then(|header| str::from_utf8(header.value).ok())
        };
        let length: usize = named("content-length").unwrap_or("0").parse()?;
        let id = named("delayq-id").map(str::to_owned);
        let task = id.zip(named("delayq-lock").map(str::to_owned));
        let end = begin + length;
        let Some(body) = self.received.get(begin..end).map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        self.received.drain(..end);
        Ok(Some(Answer { status, body, task }))
    }
}
