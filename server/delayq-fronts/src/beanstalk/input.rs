//! The bytes of a connection, split into requests.

use bytes::{Buf, BytesMut};

use super::order::{BadLine, MAX_LINE_BYTES, Order, read};

/// How many bytes may be read at once.
const READ_BYTES: usize = 32 * 1_024;
/// With less room than this the buffer grows.
const MIN_READ_BYTES: usize = 4 * 1_024;

/// What a client sent, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A job to put.
    Put(PutJob),
    /// Another order.
    Order(Order),
    /// A line that is no order.
    Bad(BadLine),
    /// A job that has more bytes than one may have.
    TooBig,
    /// A job whose body is not followed by an end of line.
    NoEnd,
}

/// A job as a client puts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PutJob {
    pub(super) pri: u32,
    /// Seconds.
    pub(super) delay: u32,
    /// Seconds, at least 1.
    pub(super) ttr: u32,
    pub(super) body: Vec<u8>,
}

/// What the next bytes belong to.
#[derive(Debug)]
enum Part {
    Line,
    /// The rest of a line that is too long.
    LongLine,
    /// The body of a job that has no bytes yet.
    Body(PutJob, usize),
    /// So many bytes of a job that is too big.
    TooBig(usize),
}

/// What a line is.
#[derive(Debug)]
enum Line {
    Complete(Request),
    /// More bytes belong to its request.
    Begun,
    /// Its end has not come yet.
    Incomplete,
}

/// The input of a connection.
#[derive(Debug)]
pub(super) struct Input {
    buffer: BytesMut,
    part: Part,
    max_job_bytes: usize,
}

/// The end of a line and of a body.
const END: &[u8] = b"\r\n";

impl Input {
    pub(super) fn new(max_job_bytes: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            part: Part::Line,
            max_job_bytes,
        }
    }

    /// Where further bytes are put. A pipeline is read in large parts, as the puts of a part are
    /// one call of the store; by itself a full buffer offers 64 bytes.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < MIN_READ_BYTES {
            self.buffer.reserve(READ_BYTES);
        }
        &mut self.buffer
    }

    /// Whether it has as many bytes as it takes before a request is taken out of it.
    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() > self.max_job_bytes.max(64 * 1_024) + MAX_LINE_BYTES
    }

    /// The next request, once all of its bytes are there.
    pub(super) fn next(&mut self) -> Option<Request> {
        loop {
            match std::mem::replace(&mut self.part, Part::Line) {
                Part::Line => match self.line() {
                    Line::Complete(request) => return Some(request),
                    Line::Begun => {}
                    Line::Incomplete => return None,
                },
                Part::LongLine => {
                    let Some(end) = find_end(&self.buffer) else {
                        // The last byte may be the first half of the end.
                        let rest = self.buffer.len().saturating_sub(1);
                        self.buffer.advance(rest);
                        self.part = Part::LongLine;
                        return None;
                    };
                    self.buffer.advance(end + END.len());
                    return Some(Request::Bad(BadLine::BadFormat));
                }
                Part::Body(mut job, bytes) => {
                    if self.buffer.len() < bytes + END.len() {
                        self.part = Part::Body(job, bytes);
                        return None;
                    }
                    let body = self.buffer.split_to(bytes);
                    let end = self.buffer.split_to(END.len());
                    if &*end != END {
                        return Some(Request::NoEnd);
                    }
                    job.body = body.to_vec();
                    return Some(Request::Put(job));
                }
                Part::TooBig(left) => {
                    let here = left.min(self.buffer.len());
                    self.buffer.advance(here);
                    if here < left {
                        self.part = Part::TooBig(left - here);
                        return None;
                    }
                    return Some(Request::TooBig);
                }
            }
        }
    }

    /// Takes a line.
    fn line(&mut self) -> Line {
        let begin = self.buffer.get(..MAX_LINE_BYTES).unwrap_or(&self.buffer);
        let Some(end) = find_end(begin) else {
            if begin.len() < MAX_LINE_BYTES {
                return Line::Incomplete;
            }
            self.part = Part::LongLine;
            return Line::Begun;
        };
        let line = self.buffer.split_to(end);
        self.buffer.advance(END.len());
        let request = match read(&line) {
            Err(bad) => Request::Bad(bad),
            Ok(Order::Put {
                pri,
                delay,
                ttr,
                bytes,
            }) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX - END.len());
                if bytes > self.max_job_bytes {
                    self.part = Part::TooBig(bytes + END.len());
                    return Line::Begun;
                }
                let (ttr, body) = (ttr.max(1), Vec::new());
                let job = PutJob {
                    pri,
                    delay,
                    ttr,
                    body,
                };
                self.part = Part::Body(job, bytes);
                return Line::Begun;
            }
            Ok(order) => Request::Order(order),
        };
        Line::Complete(request)
    }
}

fn find_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(END.len()).position(|pair| pair == END)
}
