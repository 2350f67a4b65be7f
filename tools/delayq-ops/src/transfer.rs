//! Tasks as lines of JSON, and copies from store to store.

use std::io::{BufRead, Read as _, Write};

use delayq_plugin::{Error, Result, TaskSubmitService};

mod arrivals;
mod encoding;
mod error;
mod line;
mod report;
mod same_store;
mod source;

pub use error::{TransferError, TransferFault};
pub use report::{Rejected, TransferReport};

use self::arrivals::Arrivals;
pub(crate) use self::line::Line;
use self::same_store::is_same_store;
use self::source::Source;

/// The treatment of dead tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadTasks {
    /// Leave them out, but count them. The default.
    #[default]
    LeaveOut,
    /// Export them, and import them as scheduled tasks that are due at once: no store accepts a
    /// task that is already dead.
    Include,
}

/// Called with the progress of a transfer after each page of up to 64 tasks.
pub type Progress<'a> = &'a mut (dyn FnMut(&TransferReport) + Send);

/// Maximum length of a line in bytes: the largest message with every byte escaped, and the rest.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// Writes the scheduled tasks of a type, or of the listed types that a pattern such as `*` matches,
/// one JSON object per line. Each line has the type, id, state, due time, expiry, message (as text,
/// or as base64 in `message_base64` if it is not UTF-8) and headers, which [`import`] restores. It
/// also has the submit time, the attempts, the history and the last errors, which [`import`] does
/// not restore.
///
/// Running tasks are not written, only counted: let them end, or export again. An export is not a
/// snapshot: tasks that are sent, started or moved meanwhile may be missing or written twice, so
/// stop the senders or pause the types first. Reads pages of 64 tasks, which bounds the memory (a
/// message has at most 1 MiB). The writer is called from the calling thread, and should not block
/// for long.
///
/// # Errors
/// [`TransferError`] with the work done so far, if the store or the writer fails.
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

/// Sends the tasks of a file written by [`export`], with their type, id, due time, expiry, message
/// and headers. A task whose due time has passed is due at once. Attempts are reset; the submit
/// time, the history, the errors and a request to run again cannot be restored. An expiry stays at
/// its absolute time, even if the task is moved later.
///
/// A task that the store already has is not sent again. So repeating the file, or its rest,
/// duplicates nothing while the tasks wait, run or are dead, and afterwards for as long as the
/// store remembers ended ones (its retention). A different task with the same id is kept, and the
/// line is counted as a refusal. Jobs do not pass the middleware of the service, as they passed it
/// at their first send. Up to 128 tasks are sent at once; memory is bounded by 4 MiB and one line
/// of up to 8 MiB.
///
/// # Errors
/// [`TransferError`] with the number of the line, if it is broken, too long or of a newer version:
/// every line before it is sent, none after it. The same if the store or the reader fails; then
/// some lines after the one named may have been sent.
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
            Ok(Some(text)) => encoding::read(&text, number).and_then(Line::read),
            Err(fault) => Err(fault),
        };
        let taken = match read {
            Ok(line) => arrivals.take(number, line).await,
            Err(fault) => {
                // The lines before the broken one are not lost.
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

/// Sends the tasks of one store to another, like [`export`] and [`import`] with a file between
/// them. Lines are counted from 1 in the order of the copy. The tasks also stay in the first store:
/// pause their types there first, so that no task runs in both.
///
/// # Errors
/// As [`export`] and [`import`]; a repeat does the rest. `InvalidInput` if both are one store, also
/// under two names such as a path and a link to it.
pub async fn copy(
    from: &TaskSubmitService,
    to: &TaskSubmitService,
    types: &str,
    dead: DeadTasks,
    progress: Progress<'_>,
) -> Result<TransferReport, TransferError> {
    let mut arrivals = Arrivals::new(to, dead);
    if is_same_store(from, to).await {
        let reason = "both places are the same store and namespace: nothing was copied";
        let error = Error::invalid("store", reason);
        return Err(TransferError::new(arrivals.report, None, error.into()));
    }
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
