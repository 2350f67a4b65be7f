//! `cargo xtask schemathesis`: requests by `openapi.json` against the running server, valid
//! ones and broken ones. None may end with a 5xx or with an answer that is not documented.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::call::{Call, Failure, root};

/// The version, from the package index of Python.
const PACKAGE: &str = "schemathesis==4.32.5";
/// The environment of Python, and whether it is complete.
const FOLDER: &str = "target/schemathesis";
/// What is checked of an answer. Whether a string is a span or a time no schema says, so what the
/// server accepts is not checked.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance,ignored_auth,unsupported_method";

/// How many requests, and which.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Requests of each route.
    #[arg(long, default_value_t = 200)]
    examples: u32,
    /// The seed.
    #[arg(long, default_value_t = 20)]
    seed: u32,
}

/// The server, which ends with this value, and its output.
struct Server(Child, Option<Lines<BufReader<ChildStdout>>>);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs it, where there is Python.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if !Call::new("python3 --version").succeeds() {
        println!("  left out: there is no python3");
        return Ok(());
    }
    let program = format!("{FOLDER}/bin/schemathesis");
    if !Call::new(&format!("{program} --version")).succeeds() {
        Call::new(&format!("python3 -m venv {FOLDER}")).run()?;
        Call::new(&format!("{FOLDER}/bin/pip install --quiet {PACKAGE}")).run()?;
    }
    Call::new("cargo build --locked --package delayq-server").run()?;
    let folder = tempfile::tempdir()?;
    let (_server, url, token) = start(folder.path())?;
    let Args { examples, seed } = args;
    Call::new(&format!(
        "../../{program} --config-file schemathesis.toml run {url}/openapi.json --checks {CHECKS} \
         --max-examples {examples} --seed {seed} --request-timeout 20 --continue-on-failure"
    ))
    .word("--header")
    .word(format!("Authorization: Bearer {token}"))
    .variable("SCHEMATHESIS_HOOKS", "hooks")
    .variable("PYTHONPATH", ".")
    .folder(root().join("proof/schemathesis"))
    .run()
}

/// A server with its URL and its first token.
fn start(folder: &Path) -> Result<(Server, String, String), Failure> {
    let mut command = Command::new(root().join("target/debug/delayq-server"));
    command
        .args(["--listen", "127.0.0.1:0", "--log", "error"])
        .env("DELAYQ_FIRST_TOKEN_FILE", "-")
        .current_dir(folder)
        .stdout(Stdio::piped());
    let mut server = Server(command.spawn()?, None);
    let output = server.0.stdout.take();
    server.1 = output.map(|out| BufReader::new(out).lines());
    let lines = server.1.iter_mut().flatten();
    let mut words = lines.map_while(Result::ok).filter_map(|line| {
        let word = line.rsplit(' ').next()?;
        Some(word.to_owned())
    });
    let url = words.next();
    let token = words.next();
    let silent = || Failure("delayq-server did not say where it is".to_owned());
    Ok((server, url.ok_or_else(silent)?, token.ok_or_else(silent)?))
}
