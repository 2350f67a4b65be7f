//! A session of psql that stays open, for transactions that are held.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::postgres_server::PostgresServer;

/// The line after the output of a statement.
const END: &str = "-- the end of the output --";

/// An open session. It ends, with its transaction, when it is dropped.
#[derive(Debug)]
pub struct SqlSession {
    psql: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl SqlSession {
    /// Opens a session in a database of the server.
    ///
    /// # Panics
    /// When psql cannot be started.
    #[must_use]
    pub fn open(server: &PostgresServer, database: &str) -> Self {
        let mut command = server.psql(database);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = command.spawn().expect("psql can be started");
        let input = psql.stdin.take().expect("its input is piped");
        let output = psql.stdout.take().expect("its output is piped");
        Self {
            psql,
            input,
            output: BufReader::new(output).lines(),
        }
    }

    /// Runs statements; what psql prints for them.
    ///
    /// # Panics
    /// When psql has ended.
    #[allow(clippy::must_use_candidate, reason = "many statements return nothing")]
    pub fn run(&mut self, text: &str) -> String {
        writeln!(self.input, "{text}\n\\echo '{END}'").expect("psql reads");
        let mut lines = Vec::new();
        loop {
            let line = self
                .output
                .next()
                .expect("psql answers")
                .expect("it is text");
            if line == END {
                return lines.join("\n");
            }
            lines.push(line);
        }
    }
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}
