//! Tasks as lines of JSON, and from store to store.

use std::io::{BufRead, Read as _, Write};

use delayq_plugin::{Result, TaskSubmitService};

mod arrivals;
mod error;
mod line;
mod report;
mod source;

pub use error::{TransferError, TransferFault};
pub use report::{Rejected, TransferReport};

use self::arrivals::Arrivals;
pub(crate) use self::line::Line;
use self::source::Source;

/// What becomes of dead tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadTasks {
    /// They are left out, and counted. The default.
    #[default]
    LeaveOut,
    /// They are exported, and imported as scheduled tasks that are due at once: no store takes a
    /// task that is dead already.
    Include,
}

/// Hears how far a transfer is, after each page of up to 64 tasks.
pub type Progress<'a> = &'a mut (dyn FnMut(&TransferReport) + Send);

/// Longest line of a file, in bytes: the largest message, every byte of it escaped, and the rest.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// Writes the scheduled tasks of a type, or of the listed types that a pattern such as `*` matches,
/// one JSON object a line. Each line has the type, id, state, due time, expiry, message (as text,
/// or as base64 in `message_base64` where it is not UTF-8) and headers, which [`import`] restores;
/// and the time of the submit, the attempts, the history and the last errors, which it does not.
///
/// Running tasks are not written, only counted: let them end, or export again. It is no snapshot:
/// tasks that are sent, started or moved meanwhile may be missing or written twice, so stop the
/// senders or pause the types first. Reads pages of 64 tasks, which bounds the memory (a message
/// has at most 1 MiB). The writer is called from the calling thread, and should not block for long.
///
/// # Errors
/// [`TransferError`] with what was done until then, when the store or the writer fails.
pub async fn export(
    tasks: &TaskSubmitService,
    types: &str,
    dead: DeadTasks,
    writer: &mut (dyn Write + Send),
    progress: Progress<'_>,
) -> Result<TransferReport, TransferError> {
    let mut report = TransferReport::default();
    let exported = async {
        let mut source = Source::of(tasks, types, dead).await?;
        report.running_left = source.running;
        report.dead_left_out = source.dead_left_out;
        while let Some(lines) = source.next().await? {
            for line in &lines {
                serde_json::to_writer(&mut *writer, line).map_err(std::io::Error::from)?;
                writer.write_all(b"\n")?;
                report.read += 1;
                report.written += 1;
            }
            progress(&report);
        }
        writer.flush()?;
        Ok(())
    };
    let exported: Result<(), TransferFault> = exported.await;
    match exported {
        Ok(()) => Ok(report),
        Err(fault) => Err(TransferError::new(report, None, fault)),
    }
}

/// Sends the tasks of a file that [`export`] wrote: with their type, id, due time, expiry, message
/// and headers. One that was due by now is due at once. Attempts are counted anew; the time of the
/// submit, the history, the errors and a request to run again cannot be restored. An expiry is the
/// time that it was, also after the task is moved.
///
/// A task that the store has is not sent again, so a repeat, of the file or of its rest, doubles
/// nothing while the tasks wait, run or are dead, and afterwards for as long as the store remembers
/// ended ones (its retention). Another task with the same id stays as it is, and the line is among
/// the refusals. Jobs do not pass the middleware of the service, as they have passed that of their
/// first send. Up to 128 tasks are sent at once; memory is bounded by 4 MiB and one line of up to
/// 8 MiB.
///
/// # Errors
/// [`TransferError`] with the number of the line, for one that is broken, too long or of a newer
/// version: every line before it is sent, none after it. The same when the store or the reader
/// fails; some lines behind the one named may be sent then.
pub async fn import(
    tasks: &TaskSubmitService,
    dead: DeadTasks,
    reader: &mut (dyn BufRead + Send),
    progress: Progress<'_>,
) -> Result<TransferReport, TransferError> {
    let mut arrivals = Arrivals::new(tasks, dead);
    let mut number = 0;
    loop {
        number += 1;
        let read = match next_line(reader) {
            Ok(None) => break,
            Ok(Some(text)) if text.trim_ascii().is_empty() => continue,
            Ok(Some(text)) => Line::read(&text),
            Err(fault) => Err(fault),
        };
        let taken = match read {
            Ok(line) => arrivals.take(number, line).await,
            Err(fault) => {
                // What stands before the broken line is not lost.
                arrivals.send().await?;
                return Err(arrivals.failed(number, fault));
            }
        };
        if taken? {
            progress(&arrivals.report);
        }
    }
    arrivals.send().await?;
    progress(&arrivals.report);
    Ok(arrivals.report)
}

/// Sends the tasks of one store to another, as [`export`] and [`import`] do with a file between
/// them. Lines are counted from 1 in the order of the copy. The tasks stay in the first store, too:
/// pause the types there before, so that none runs in both.
///
/// # Errors
/// As [`export`] and [`import`]. A repeat does the rest.
pub async fn copy(
    from: &TaskSubmitService,
    to: &TaskSubmitService,
    types: &str,
    dead: DeadTasks,
    progress: Progress<'_>,
) -> Result<TransferReport, TransferError> {
    let mut arrivals = Arrivals::new(to, dead);
    let mut source = match Source::of(from, types, dead).await {
        Ok(source) => source,
        Err(fault) => return Err(arrivals.failed(1, fault)),
    };
    arrivals.report.running_left = source.running;
    arrivals.report.dead_left_out = source.dead_left_out;
    let mut number = 0;
    loop {
        let lines = match source.next().await {
            Ok(None) => break,
            Ok(Some(lines)) => lines,
            Err(fault) => {
                arrivals.send().await?;
                return Err(arrivals.failed(number + 1, fault));
            }
        };
        for line in lines {
            number += 1;
            arrivals.take(number, line).await?;
        }
        progress(&arrivals.report);
    }
    arrivals.send().await?;
    progress(&arrivals.report);
    Ok(arrivals.report)
}

fn next_line(reader: &mut (dyn BufRead + Send)) -> Result<Option<Vec<u8>>, TransferFault> {
    let mut line = Vec::new();
    let read = reader.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    if read as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
        let what = format!("it is longer than {MAX_LINE_BYTES} bytes");
        return Err(TransferFault::Line(what));
    }
    Ok((read > 0).then_some(line))
}
