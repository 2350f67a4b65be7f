//! Calls to servers that are not there yet, or never answer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A server that refuses each connection with this code. Counts them.
fn refuses(code: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 1_024]);
            let text = format!("SFATAL\0VFATAL\0C{code}\0Mnot now\0\0");
            let length = u32::try_from(text.len() + 4).unwrap();
            let answer = [&b"E"[..], &length.to_be_bytes(), text.as_bytes()].concat();
            let _ = connection.write_all(&answer);
        }
    });
    (port, count)
}

async fn ask(port: u16) -> Error {
    let url = format!("postgres://a@127.0.0.1:{port}/d?sslmode=disable");
    let config = PostgresConfig::parse(&url).unwrap();
    let connections = Connections::start(&config, Duration::from_millis(700)).unwrap();
    let call = connections
        .call(|session| Box::pin(async move { session.ask("SELECT 1", &[]).await.map(drop) }));
    call.await.unwrap_err()
}

#[tokio::test]
async fn a_server_that_is_starting_is_waited_for_and_another_refusal_is_not() {
    let (port, count) = refuses("57P03");
    let told = ask(port).await.to_string();
    assert!(told.contains("57P03"), "{told}");
    assert!(count.load(Ordering::Relaxed) > 3);
    let (port, count) = refuses("53300");
    let told = ask(port).await.to_string();
    assert!(told.contains("53300"), "{told}");
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
