//! Requests to a server, each on a connection of its own.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take: longer than a claim waits.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a request, and reads the whole answer.
///
/// # Errors
/// There is no server, or it ended before its answer was whole: it may have done what was asked.
pub(crate) fn ask(
    port: u16,
    token: &str,
    request: &str,
    body: &str,
) -> Result<(u16, Value), Error> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let broken = || Error::from(ErrorKind::UnexpectedEof);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let body = serde_json::from_str(body).map_err(|_| broken())?;
    Ok((status.ok_or_else(broken)?, body))
}
