//! The answer of a command: for people, for programs, and for the shell.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use crate::failure::{Failure, REFUSED};
use crate::text::json;

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    text: Vec<u8>,
    json: Option<Value>,
    code: u8,
}

impl CommandResult {
    /// Text for people, with styles, and the same as JSON.
    pub(crate) fn new(text: impl Into<String>, json: impl Serialize) -> Result<Self, Failure> {
        let json = serde_json::to_value(json).map_err(io::Error::from)?;
        let text: String = text.into();
        Ok(Self {
            text: text.into_bytes(),
            json: Some(json),
            code: 0,
        })
    }

    /// Bytes that are the same for people and programs: a script, a page.
    pub(crate) fn raw(text: Vec<u8>) -> Self {
        Self {
            text,
            json: None,
            code: 0,
        }
    }

    /// No further output: the command has already printed everything.
    pub(crate) fn said() -> Self {
        Self::raw(Vec::new())
    }

    /// The same result, but unless `is_done` the program ends with 1: refused, or nothing found.
    pub(crate) fn done_if(mut self, is_done: bool) -> Self {
        self.code = if is_done { 0 } else { REFUSED };
        self
    }

    /// Prints the result and returns the exit code.
    pub(crate) fn print(self, is_json: bool) -> Result<ExitCode, Failure> {
        let mut stdout = anstream::stdout().lock();
        match self.json {
            Some(document) if is_json => {
                writeln!(stdout, "{}", json(&format!("{document:#}")))?;
            }
            _ => {
                stdout.write_all(&self.text)?;
                if self.text.last().is_some_and(|byte| *byte != b'\n') {
                    writeln!(stdout)?;
                }
            }
        }
        stdout.flush()?;
        Ok(ExitCode::from(self.code))
    }
}
