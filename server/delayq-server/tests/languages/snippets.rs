//! The shell blocks of the guide's pages on the server, run as they stand there, those of a page in
//! its order and in one shell. Every request of curl has to be answered with 2xx.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use delayq_tests::redis_server::free_port;

use super::programs::succeeds;
use super::{blocks, is_there};

/// What defines the functions that the blocks use.
const PREAMBLE: &str = include_str!("snippets.sh");

/// What a page takes for granted.
const BEFORE: &[(&str, &str)] = &[
    ("server.md", OF_SERVER),
    ("server-workers.md", OF_SERVER),
    ("server-push.md", OF_SERVER),
    ("server-grpc.md", OF_SERVER),
    ("server-apply.md", OF_SERVER),
    (
        "server-pools.md",
        "export DELAYQ_CONFIG=server.toml\ndelayq-server --listen 127.0.0.1:7880\n",
    ),
];
const OF_SERVER: &str = "delayq-server --listen 127.0.0.1:7880\nTOKEN=$(first_token)\n";

/// A part of a page, and what is run in its place.
const INSTEAD: &[(&str, &str, &str)] = &[
    // The server of the page is started before its blocks.
    ("server.md", "TOKEN=dq_01ABC_secret", "TOKEN=$(first_token)"),
    ("server-workers.md", "=dq_01ABC_secret", "=$(first_token)"),
    // The id of a token that was made in the line before.
    ("server.md", " 01ABC", " $ID"),
    ("server-operations.md", " 01ABC", " $ID"),
    // What the blocks after it send.
    (
        "server-operations.md",
        "--bootstrap-token-file first.token\n",
        "--bootstrap-token-file first.token\nTOKEN=$(cat first.token)\n",
    ),
    // This server has been built without Kafka.
    (
        "from-task-service.md",
        "kafka.main.brokers = \"10.0.0.7:9092\"",
        "",
    ),
    // The token in the answer to the request before, and a job that is due within the test.
    ("from-lmstfy.md", "'X-Token: TOKEN'", "\"X-Token: $TOKEN\""),
    ("from-lmstfy.md", "delay=1800", "delay=1"),
    // Folders of the test.
    ("from-beanstalkd.md", "/var/lib/delayq", "jobs"),
    // The machines of the pages are one here.
    (
        "from-spring.md",
        "listen = \"10.0.0.5:7885\"",
        "listen = \"127.0.0.1:7885\"",
    ),
    (
        "from-dq.md",
        "10.0.0.1 -p 11300 -b /var/lib/delayq",
        "127.0.0.1 -p 11300 -b one",
    ),
    (
        "from-dq.md",
        "10.0.0.2 -p 11300 -b /var/lib/delayq",
        "127.0.0.1 -p 11301 -b other",
    ),
    ("server-pools.md", "/var/lib/delayq/", ""),
    // The first command returns once the move can no longer be taken back, and this one says so.
    (
        "server-pools.md",
        "delayq-server move shop --cancel",
        "! delayq-server move shop --cancel",
    ),
];

/// The start of a block that is not run, and why.
const NOT_RUN: &[(&str, &str, &str)] = &[
    (
        "server.md",
        "cargo run -p delayq-server ",
        "it builds the server, and that of the page is the one that was built with this test",
    ),
    (
        "from-lmstfy.md",
        "curl -s http://old:7778/token/shop",
        "it reads the tokens of a running lmstfy",
    ),
    (
        "from-lmstfy.md",
        "delayq --url redis://10.0.0.5 import lmstfy",
        "it moves the jobs of a running lmstfy",
    ),
];

/// Ports of the pages; each is a free one in the test.
const PORTS: [u16; 9] = [7777, 7778, 7880, 7885, 7890, 9521, 9595, 11300, 11301];

/// Pages that are run beside each other.
const AT_ONCE: usize = 4;

/// A page on the server, and its text with what is run instead.
struct Page {
    name: String,
    text: String,
}

impl Page {
    fn read(path: &Path) -> Self {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut text = std::fs::read_to_string(path).unwrap();
        for (_, part, instead) in INSTEAD.iter().filter(|(page, ..)| *page == name) {
            assert!(text.contains(part), "{name} has no {part:?} any more");
            text = text.replace(part, instead);
        }
        Self { name, text }
    }

    /// Its commands, but for those that are not run.
    fn commands(&self) -> String {
        let mut left: Vec<_> = NOT_RUN.iter().filter(|one| one.0 == self.name).collect();
        let mut commands = String::new();
        for (_, block) in blocks(&self.text).filter(|(language, _)| *language == "sh") {
            let listed = left
                .iter()
                .position(|(_, start, _)| block.trim_start().starts_with(start));
            if let Some(at) = listed {
                let (page, start, why) = left.swap_remove(at);
                eprintln!("LEFT OUT: {start:?} of {page}: {why}");
            } else {
                commands += block;
            }
        }
        assert!(left.is_empty(), "no such block any more: {left:?}");
        commands
    }

    /// The first configuration on the page, with stores that are files.
    fn configuration(&self) -> String {
        let toml = blocks(&self.text).find(|(language, _)| *language == "toml");
        let lines = toml.map_or("", |(_, text)| text).lines();
        let lines = lines.map(|line| match line.split_once(" = \"redis://") {
            Some((key, _)) => format!("{key} = \"sqlite:{key}.sqlite\""),
            None => line.replace("0.0.0.0:", "127.0.0.1:"),
        });
        lines.map(|line| line + "\n").collect()
    }
}

/// The pages on the server.
fn pages() -> Vec<Page> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let is_on_server = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("server") || name.starts_with("from-")
    };
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(is_on_server);
    let mut pages: Vec<_> = files.map(|path| Page::read(&path)).collect();
    pages.sort_by(|one, other| one.name.cmp(&other.name));
    pages
}

/// The text with a free port for each of the pages.
fn with_free_ports(text: &str, ports: &BTreeMap<u16, u16>) -> String {
    ports.iter().fold(text.to_owned(), |text, (known, free)| {
        let text = text.replace(&format!(":{known}"), &format!(":{free}"));
        text.replace(&format!(" {known}"), &format!(" {free}"))
    })
}

/// How many requests of curl the commands have.
fn requests(script: &str) -> usize {
    let lines = script.lines().map(str::trim_start);
    let is_request = |line: &&str| line.starts_with("curl ") || line.contains("=$(curl ");
    lines.filter(is_request).count()
}

fn run(page: &Page) {
    let folder = tempfile::tempdir().unwrap();
    let ports = PORTS.map(|known| (known, free_port()));
    let ports: BTreeMap<u16, u16> = ports.into();
    let before = BEFORE.iter().find(|(name, _)| *name == page.name);
    let commands = page.commands();
    if commands.is_empty() {
        return;
    }
    let mut script = PREAMBLE.to_owned();
    write!(script, "{}{commands}", before.map_or("", |(_, text)| text)).unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), with_free_ports(text, &ports)).unwrap();
    };
    write("page.sh", &script);
    write("server.toml", &page.configuration());
    let mut bash = Command::new("bash");
    bash.arg("page.sh")
        .current_dir(folder.path())
        .env("DELAYQ", env!("CARGO_BIN_EXE_delayq-server"))
        .env("DELAYQ_LOG", "warn")
        // Where a page says nothing: the default is one port for all.
        .env("DELAYQ_LISTEN", format!("127.0.0.1:{}", ports[&7880]))
        .env("PATH", path())
        .env("HOME", folder.path());
    eprintln!("{}", page.name);
    succeeds(&mut bash);
    let statuses = std::fs::read_to_string(folder.path().join("statuses")).unwrap_or_default();
    let statuses: Vec<_> = statuses.lines().collect();
    let is_success = |status: &&str| status.len() == 3 && status.starts_with('2');
    let all = statuses.len() == requests(&commands) && statuses.iter().all(is_success);
    assert!(all, "{}: {statuses:?} for\n{commands}", page.name);
}

/// Where `cargo xtask test` installs programs in Go.
fn go_programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients/go/bin")
}

/// The PATH with these.
fn path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(go_programs()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap()
}

#[test]
fn the_commands_of_the_pages_on_the_server_succeed() {
    let has_bash = is_there("bash", &["--version"]);
    if !has_bash || !is_there("curl", &["--fail-with-body", "--version"]) {
        eprintln!("LEFT OUT: bash, or a curl of 7.76 or later, is not here");
        return;
    }
    let has_grpcurl = go_programs().join("grpcurl").is_file() || is_there("grpcurl", &["-version"]);
    let mut pages = pages();
    if !has_grpcurl {
        pages.retain(|page| page.name != "server-grpc.md");
        eprintln!("LEFT OUT: grpcurl, which server-grpc.md is about, is not here");
    }
    // Each has a server, a folder and ports of its own, and waits more than it works.
    let pages = Mutex::new(pages.into_iter());
    let next = || pages.lock().unwrap().next();
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some(page) = next() {
                    run(&page);
                }
            });
        }
    });
}
