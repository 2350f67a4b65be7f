//! The answer of a command: for people, for programs, and for the shell.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use crate::failure::{Failure, REFUSED};
use crate::output::OutputFormat;
use crate::table::Table;

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    report: Report,
    document: Option<Value>,
    code: u8,
}

/// Text for people, of lines and tables.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Part>);

/// A part of a report.
#[derive(Debug)]
enum Part {
    Lines(String),
    Table(Table),
    Raw(Vec<u8>),
}

impl Report {
    /// Adds lines.
    pub(crate) fn lines(mut self, lines: impl Into<String>) -> Self {
        self.0.push(Part::Lines(lines.into()));
        self
    }

    /// Adds a table.
    pub(crate) fn table(mut self, table: Table) -> Self {
        self.0.push(Part::Table(table));
        self
    }
}

impl From<String> for Report {
    fn from(lines: String) -> Self {
        Self::default().lines(lines)
    }
}

impl From<&str> for Report {
    fn from(lines: &str) -> Self {
        Self::default().lines(lines)
    }
}

impl From<Table> for Report {
    fn from(table: Table) -> Self {
        Self::default().table(table)
    }
}

impl CommandResult {
    /// Text for people, with styles, and the same as a document.
    pub(crate) fn new(
        report: impl Into<Report>,
        document: impl Serialize,
    ) -> Result<Self, Failure> {
        let document = serde_json::to_value(document).map_err(io::Error::from)?;
        Ok(Self {
            report: report.into(),
            document: Some(document),
            code: 0,
        })
    }

    /// Bytes that are the same for people and programs: a script, a page.
    pub(crate) fn raw(text: Vec<u8>) -> Self {
        Self {
            report: Report(vec![Part::Raw(text)]),
            document: None,
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
    pub(crate) fn print(self, format: OutputFormat) -> Result<ExitCode, Failure> {
        let mut stdout = anstream::stdout().lock();
        match self.document {
            Some(document) if format.is_document() => {
                stdout.write_all(format.document(&document)?.as_bytes())?;
            }
            _ => {
                for part in &self.report.0 {
                    part.print(format, &mut stdout)?;
                }
            }
        }
        stdout.flush()?;
        Ok(ExitCode::from(self.code))
    }
}

impl Part {
    /// Prints the part, with a line break at its end.
    fn print(&self, format: OutputFormat, writer: &mut impl Write) -> io::Result<()> {
        let lines = match self {
            Self::Raw(bytes) => return writer.write_all(bytes),
            Self::Lines(lines) => lines.clone(),
            Self::Table(table) => table.render(format == OutputFormat::Wide),
        };
        writer.write_all(lines.as_bytes())?;
        if !lines.is_empty() && !lines.ends_with('\n') {
            writeln!(writer)?;
        }
        Ok(())
    }
}
