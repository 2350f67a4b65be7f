//! The examples, run as a newcomer runs them. `order_timeout` is the first command of the README,
//! which says that it can be killed and started again.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::path::{Path, PathBuf};
use std::process::Stdio;

use delayq_tests::redis_server::free_port;
use delayq_tests::rig::{soon, until};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

/// The program of an example, which stands beside the folder of this one.
fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let folder = this.ancestors().nth(2).unwrap();
    let program = folder.join("examples").join(name);
    assert!(
        program.is_file(),
        "{} is not built: cargo build --workspace --examples",
        program.display()
    );
    program
}

/// An example that runs in a folder of its own; killed when it is dropped.
struct Example {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Example {
    fn start(name: &str, arguments: &[&str], folder: &Path) -> Self {
        let mut child = Command::new(program(name))
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits for a line with this text.
    async fn says(&mut self, text: &str) -> String {
        let line = async {
            loop {
                let line = self.lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("it ended before {text:?}"));
                if line.contains(text) {
                    return line;
                }
            }
        };
        soon(text, line).await
    }

    /// All further lines, once it has ended well.
    async fn ends(mut self) -> Vec<String> {
        let mut said = Vec::new();
        let ended = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                said.push(line);
            }
            self.child.wait().await.unwrap()
        };
        let status = soon("its end", ended).await;
        assert!(status.success(), "{status}: {said:#?}");
        said
    }
}

/// What the day ends with: how many orders were saved, how many cancelled, how many neither.
fn report(lines: &[String]) -> [usize; 3] {
    let mut lines = lines.iter();
    let found = lines.find(|line| line.contains("saved by their payment"));
    let found = found.expect("the day ends with a report");
    let words = found
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    let numbers: Vec<usize> = words.collect();
    numbers.try_into().expect("three numbers")
}

/// How many lines say this of an order.
fn count(lines: &[String], what: &str) -> usize {
    lines.iter().filter(|line| line.contains(what)).count()
}

/// Faster than by default, so that the day is over in 7 s. On a busy machine a payment may come
/// after the cancellation, so how many orders are saved is not told beforehand.
#[tokio::test]
async fn a_killed_day_of_the_shop_goes_on_where_it_was_and_loses_no_order() {
    const ORDERS: usize = 42;
    let folder = tempfile::tempdir().unwrap();
    let faster = ["--speed", "6000"];
    let mut killed = Example::start("order_timeout", &faster, folder.path());
    killed.says("  cancelled  ").await;
    killed.child.kill().await.unwrap();
    let again = Example::start("order_timeout", &faster, folder.path());
    let again = again.ends().await;
    let [saved, cancelled, neither] = report(&again);
    assert_eq!((saved + cancelled, neither), (ORDERS, 0), "{again:#?}");
    // What it sent waits. What it ran runs again only if the kill came before its end was stored.
    assert!(count(&again, "  placed  ") < ORDERS, "{again:#?}");
    assert!(count(&again, "  cancelled  ") <= cancelled, "{again:#?}");
}

#[tokio::test]
async fn every_other_example_shows_what_it_is_about() {
    let ends = [
        ("scheduled_push", "The concert begins"),
        ("callback_retries", "the merchant is back, requeued"),
        ("stock_release", "kept for 10 days"),
        ("stateful_worker", "order-3 is "),
        ("graceful_shutdown", "long: finished"),
        ("metrics_opentelemetry", "delayq_"),
        ("trace_context", "linked to"),
    ];
    let runs = ends.map(|(name, text)| {
        tokio::spawn(async move {
            let folder = tempfile::tempdir().unwrap();
            let said = Example::start(name, &[], folder.path()).ends().await;
            let has = said.iter().any(|line| line.contains(text));
            assert!(has, "{name} does not say {text:?}: {said:#?}");
        })
    });
    for run in runs {
        run.await.unwrap();
    }
}

#[tokio::test]
async fn the_examples_with_a_page_serve_it_until_they_are_told_to_end() {
    let pages = [
        ("admin_page", "/", "order."),
        ("metrics_prometheus", "/metrics", "delayq_"),
    ];
    for (name, path, text) in pages {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let mut example = Example::start(name, &[&address], folder.path());
        example.says(&format!("http://{address}")).await;
        until(text, || async {
            page(&address, path).await.contains(text).then_some(())
        })
        .await;
        example.child.kill().await.unwrap();
    }
}

/// The answer with the page.
async fn page(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
