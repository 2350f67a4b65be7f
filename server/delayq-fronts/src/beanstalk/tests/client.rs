//! A client that sends text and compares what comes back.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for an answer that must come.
const LONG: Duration = Duration::from_secs(20);

/// A connection of a test.
#[derive(Debug)]
pub(super) struct Client(pub(super) TcpStream);

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(super) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a line, and awaits this answer to it.
    pub(super) async fn expect(&mut self, line: &str, answer: &str) {
        self.send(&format!("{line}\r\n")).await;
        self.hear(answer).await;
    }

    /// Awaits an answer.
    pub(super) async fn hear(&mut self, answer: &str) {
        let mut bytes = vec![0; answer.len() + 2];
        let read = timeout(LONG, self.0.read_exact(&mut bytes)).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(matches!(read, Ok(Ok(_))), "{answer:?}, but {text:?}");
        assert_eq!(text, format!("{answer}\r\n"));
    }

    /// Sends a line, and gives the body behind `OK`.
    pub(super) async fn body(&mut self, line: &str) -> String {
        self.send(&format!("{line}\r\n")).await;
        let mut text = String::new();
        while !text.ends_with("\n\r\n") {
            let byte = timeout(LONG, self.0.read_u8()).await.unwrap().unwrap();
            text.push(char::from(byte));
        }
        text
    }

    /// Everything that comes: the first bytes within `first`, and what follows closely.
    pub(super) async fn read(&mut self, first: Duration) -> String {
        let (mut text, mut wait) = (String::new(), first);
        let mut bytes = vec![0; 1 << 16];
        loop {
            match timeout(wait, self.0.read(&mut bytes)).await {
                Err(_) => return text,
                Ok(Ok(0) | Err(_)) => return text + "<closed>",
                Ok(Ok(read)) => text.extend(bytes[..read].iter().map(|byte| char::from(*byte))),
            }
            wait = Duration::from_millis(150);
        }
    }
}
