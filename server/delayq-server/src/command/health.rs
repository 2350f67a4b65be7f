//! `delayq-server health`: asks the running server whether it is ready, or only whether it is
//! alive, for supervisors that have no client of HTTP, such as a container without a shell.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use delayq_service::config::Config;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::door::loopback_connector;
use crate::say::say;
use crate::server::ServerError;

/// What the server is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// Whether it takes requests, which includes its store.
    Ready,
    /// Whether it answers at all. A restart mends one that does not.
    Live,
}

impl Question {
    fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Live => "live",
        }
    }
}

/// An answer is some hundred bytes.
const MAX_ANSWER: u64 = 64 * 1024;

/// Asks at the address that the configuration lets the server listen on. With `tls` the certificate
/// is not verified, because nothing secret is sent and the address is no name.
///
/// # Errors
/// No answer came within `timeout`, or the answer is not 200. The text has the reason.
pub(super) async fn run(
    config: &Config,
    question: Question,
    timeout: Duration,
) -> Result<(), ServerError> {
    let (address, word) = (reachable(config.listen), question.word());
    let refused = |why: String| ServerError::Refused(format!("not {word} at {address}: {why}"));
    let request =
        format!("GET /health/{word} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let asked = tokio::time::timeout(timeout, ask(config, address, &request)).await;
    let silent = |_| refused(format!("no answer within {} s", timeout.as_secs()));
    let answer = asked.map_err(silent)?;
    let answer = answer.map_err(|error| refused(error.to_string()))?;
    judge(&answer).map_err(refused)?;
    say(word);
    Ok(())
}

/// The address itself, or that of this machine if the server listens on all.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn ask(config: &Config, address: SocketAddr, request: &str) -> Result<String, ServerError> {
    let stream = TcpStream::connect(address).await?;
    match loopback_connector(&config.tls)? {
        None => exchange(stream, request).await,
        Some(connector) => {
            let name = address.ip().into();
            exchange(connector.connect(name, stream).await?, request).await
        }
    }
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
) -> Result<String, ServerError> {
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    let read = stream.take(MAX_ANSWER).read_to_end(&mut answer).await;
    // A connection that is cut after the answer has still brought it.
    if answer.is_empty() {
        read?;
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Refuses every answer but 200, with its status and its text.
fn judge(answer: &str) -> Result<(), String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let mut words = head.split([' ', '\r']);
    let version = words.next().unwrap_or_default();
    if !version.starts_with("HTTP/") {
        return Err("what answers there speaks no HTTP: is it another program, or TLS?".to_owned());
    }
    match words.next() {
        Some("200") => Ok(()),
        status => {
            let status = status.unwrap_or_default();
            let body = body.lines().find(|line| line.starts_with('{'));
            Err(format!("{status} {}", body.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{judge, reachable};

    #[test]
    fn a_server_that_listens_everywhere_is_asked_on_this_machine() {
        for (listen, asked) in [
            ("0.0.0.0:7880", "127.0.0.1:7880"),
            ("[::]:7880", "[::1]:7880"),
            ("10.0.0.7:1", "10.0.0.7:1"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), asked);
        }
    }

    #[test]
    fn only_200_is_ready_and_any_other_answer_is_told() {
        assert_eq!(judge("HTTP/1.1 200 OK\r\na: b\r\n\r\n{}"), Ok(()));
        let answer = "HTTP/1.1 503 Service Unavailable\r\na: b\r\n\r\n{\"status\":503}";
        assert_eq!(judge(answer).unwrap_err(), "503 {\"status\":503}");
        assert!(judge("\x15\x03\x01").unwrap_err().contains("TLS"));
        assert!(judge("").is_err());
    }
}
