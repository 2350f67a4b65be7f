//! The events as they are read: line by line, with a look at the next one.

use std::error::Error;
use std::path::Path;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

use crate::event::Event;
use crate::shop::say;

/// The events of a file or of stdin.
pub(crate) struct Lines {
    read: Box<dyn AsyncBufRead + Unpin + Send>,
    /// Where they come from, for messages.
    name: String,
    number: u64,
    skipped: u64,
    next: Option<Event>,
    /// Whether they come through a pipe, perhaps as they happen.
    pub(crate) is_live: bool,
}

impl Lines {
    /// Opens a file, or stdin for `-`.
    pub(crate) async fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let is_live = path.as_os_str() == "-";
        let name = if is_live {
            "stdin".to_owned()
        } else {
            path.display().to_string()
        };
        let read: Box<dyn AsyncBufRead + Unpin + Send> = if is_live {
            Box::new(BufReader::new(tokio::io::stdin()))
        } else {
            let file = tokio::fs::File::open(path).await;
            Box::new(BufReader::new(file.map_err(|e| unreadable(&name, &e))?))
        };
        Ok(Self {
            read,
            name,
            number: 0,
            skipped: 0,
            next: None,
            is_live,
        })
    }

    /// The next event, which stays the next one until it is taken. Lines that are no event are
    /// named and skipped; what is no text is no list of events at all.
    pub(crate) async fn peek(&mut self) -> Result<Option<&Event>, String> {
        while self.next.is_none() {
            let Some(line) = self.line().await? else {
                return Ok(None);
            };
            match Event::parse(&line) {
                _ if line.trim().is_empty() => {}
                Ok(event) => self.next = Some(event),
                Err(error) => self.skip(error),
            }
        }
        Ok(self.next.as_ref())
    }

    /// Takes the next event, if it was looked at.
    pub(crate) fn take(&mut self) -> Option<Event> {
        self.next.take()
    }

    /// Says that the line read last is skipped, and why.
    pub(crate) fn skip(&mut self, why: impl std::fmt::Display) {
        self.skipped += 1;
        say(format!("line {}", self.number), "skipped", why);
    }

    /// What to say of lines without an event: as a mistake when there were lines.
    pub(crate) fn without_event(&self) -> Result<String, String> {
        let none = format!("no events in {}", self.name);
        match self.skipped {
            0 => Ok(none),
            skipped => Err(format!("{none}: all {skipped} lines were skipped")),
        }
    }

    async fn line(&mut self) -> Result<Option<String>, String> {
        let mut bytes = Vec::new();
        let read = self.read.read_until(b'\n', &mut bytes).await;
        if read.map_err(|e| unreadable(&self.name, &e))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let not_text = |_| format!("{}, line {}: not UTF-8 text", self.name, self.number);
        String::from_utf8(bytes).map(Some).map_err(not_text)
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> String {
    format!("cannot read {name}: {error}")
}
