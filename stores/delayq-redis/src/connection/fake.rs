//! A fake server, which answers each command as a test specifies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::spawn;
use std::time::Duration;

use super::Setup;
use crate::config::Address;

/// Starts a fake server; `answer` gets its port and a command. The server ends with the test.
pub(crate) fn serve(answer: impl Fn(u16, &str) -> String + Send + Sync + 'static) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    spawn(move || {
        for stream in listener.incoming() {
            let (stream, answer) = (stream.unwrap(), Arc::clone(&answer));
            spawn(move || {
                let mut stream = BufReader::new(stream);
                while let Some(command) = command(&mut stream) {
                    let said = if command.starts_with("HELLO") {
                        map(&[("proto", "3")])
                    } else {
                        answer(port, &command)
                    };
                    if stream.get_mut().write_all(said.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Address::new("127.0.0.1", port)
}

/// Parameters for connections to a fake server.
pub(crate) fn setup() -> Setup {
    Setup {
        timeout: Duration::from_secs(5),
        is_replicated: false,
        scripts: &[],
        channel: "wake".to_owned(),
        listener: Arc::new(|_| {}),
    }
}

/// An address where nobody listens, as of a server that is gone.
pub(crate) fn gone() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Address::new("127.0.0.1", listener.local_addr().unwrap().port())
}

fn command(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut words = Vec::new();
    for _ in 0..number(stream, '*')? {
        let length = number(stream, '$')?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).ok()?;
        word.truncate(length);
        words.push(String::from_utf8(word).unwrap());
    }
    Some(words.join(" "))
}

fn number(stream: &mut BufReader<TcpStream>, kind: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    line.strip_prefix(kind)?.trim().parse().ok()
}

pub(crate) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

pub(crate) fn verbatim(text: &str) -> String {
    format!("={}\r\ntxt:{text}\r\n", text.len() + 4)
}

pub(crate) fn array(answers: &[String]) -> String {
    format!("*{}\r\n{}", answers.len(), answers.concat())
}

pub(crate) fn map(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| bulk(name) + &bulk(value);
    let answers: String = pairs.iter().map(pair).collect();
    format!("%{}\r\n{answers}", pairs.len())
}
