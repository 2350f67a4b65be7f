//! Parses the bytes of a connection into requests.

use bytes::{Buf, BytesMut};

use super::tube::TubeName;

/// The number of bytes read at once.
const READ_BYTES: usize = 32 * 1_024;
/// The buffer grows if it has less room than this.
const MIN_READ_BYTES: usize = 4 * 1_024;
/// The longest line, including its end. A longer line is invalid.
const MAX_LINE_BYTES: usize = 224;

/// A complete request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A put with its job.
    Put(PutJob),
    /// Another command.
    Order(Order),
    /// An invalid line.
    Bad(BadLine),
    /// A job above the size limit.
    TooBig,
    /// A job for whose body there is no room.
    NoRoom,
    /// A job whose body does not end with a line end.
    NoEnd,
    /// The first line is one of HTTP. Nothing that follows is read.
    Http,
}

/// A job to put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PutJob {
    pub(super) pri: u32,
    /// In seconds.
    pub(super) delay: u32,
    /// In seconds, at least 1.
    pub(super) ttr: u32,
    pub(super) body: Vec<u8>,
}

/// The part of the input that the next bytes belong to.
#[derive(Debug)]
enum InputPart {
    Line,
    /// The rest of a line that is too long.
    LongLine,
    /// The body of a job, none of which has arrived yet.
    Body(PutJob, usize),
    /// The given number of bytes of a job that is refused, and the refusal.
    Refused(usize, Request),
}

/// The result of reading a line.
#[derive(Debug)]
enum Line {
    Complete(Request),
    /// The line is complete, but more bytes belong to its request.
    Begun,
    /// The end of the line has not arrived yet.
    Incomplete,
}

/// How a request of HTTP begins. A browser can be made to send one to any port, and commands in its
/// body.
const HTTP_VERBS: [&[u8]; 10] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"CONNECT ",
    b"OPTIONS ",
    b"TRACE ",
    b"PATCH ",
    // The beginning of HTTP/2.
    b"PRI ",
];

/// The input of a connection.
#[derive(Debug)]
pub(super) struct Input {
    buffer: BytesMut,
    part: InputPart,
    max_job_bytes: usize,
    /// True once a line was read.
    is_begun: bool,
}

/// The end of a line and of a body.
const END: &[u8] = b"\r\n";

impl Input {
    pub(super) fn new(max_job_bytes: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            part: InputPart::Line,
            max_job_bytes,
            is_begun: false,
        }
    }

    /// The buffer for further bytes. A pipeline is read in large parts, because the puts of a part
    /// share one call of the store. On its own, a full buffer would offer 64 bytes.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < MIN_READ_BYTES {
            self.buffer.reserve(READ_BYTES);
        }
        &mut self.buffer
    }

    /// Returns true if it holds so many bytes that a request must be taken first.
    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() > self.max_job_bytes.max(64 * 1_024) + MAX_LINE_BYTES
    }

    /// The next request, once all of its bytes have arrived.
    pub(super) fn next(&mut self) -> Option<Request> {
        loop {
            match std::mem::replace(&mut self.part, InputPart::Line) {
                InputPart::Line => match self.line() {
                    Line::Complete(request) => return Some(request),
                    Line::Begun => {}
                    Line::Incomplete => return None,
                },
                InputPart::LongLine => {
                    let Some(end) = find_end(&self.buffer) else {
                        // The last byte may be the first half of the line end.
                        let rest = self.buffer.len().saturating_sub(1);
                        self.buffer.advance(rest);
                        self.part = InputPart::LongLine;
                        return None;
                    };
                    self.buffer.advance(end + END.len());
                    return Some(Request::Bad(BadLine::BadFormat));
                }
                InputPart::Body(mut job, bytes) => {
                    if self.buffer.len() < bytes + END.len() {
                        self.part = InputPart::Body(job, bytes);
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
                InputPart::Refused(left, refusal) => {
                    let here = left.min(self.buffer.len());
                    self.buffer.advance(here);
                    if here < left {
                        self.part = InputPart::Refused(left - here, refusal);
                        return None;
                    }
                    return Some(refusal);
                }
            }
        }
    }

    /// Returns true while the body of a job is incomplete.
    pub(super) fn is_within_job(&self) -> bool {
        matches!(self.part, InputPart::Body(..))
    }

    /// Refuses the job whose body is incomplete, and forgets what has arrived of it.
    pub(super) fn refuse_job(&mut self) {
        if let InputPart::Body(_, bytes) = self.part {
            self.part = InputPart::Refused(bytes + END.len(), Request::NoRoom);
        }
    }

    /// Reads a line.
    fn line(&mut self) -> Line {
        if !self.is_begun && is_http(&self.buffer) {
            self.buffer.clear();
            return Line::Complete(Request::Http);
        }
        let begin = self.buffer.get(..MAX_LINE_BYTES).unwrap_or(&self.buffer);
        let Some(end) = find_end(begin) else {
            if begin.len() < MAX_LINE_BYTES {
                return Line::Incomplete;
            }
            self.is_begun = true;
            self.part = InputPart::LongLine;
            return Line::Begun;
        };
        self.is_begun = true;
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
                    let bytes = bytes + END.len();
                    self.part = InputPart::Refused(bytes, Request::TooBig);
                    return Line::Begun;
                }
                let (ttr, body) = (ttr.max(1), Vec::new());
                let job = PutJob {
                    pri,
                    delay,
                    ttr,
                    body,
                };
                self.part = InputPart::Body(job, bytes);
                return Line::Begun;
            }
            Ok(order) => Request::Order(order),
        };
        Line::Complete(request)
    }
}

/// Returns true for the beginning of a request of HTTP: a verb, and a target. A verb alone may be a
/// command that its client has spelled in capitals.
fn is_http(begin: &[u8]) -> bool {
    let target = HTTP_VERBS.iter().find_map(|verb| begin.strip_prefix(*verb));
    target.is_some_and(|target| {
        let targets: [&[u8]; 3] = [b"/", b"*", b"http"];
        targets.iter().any(|one| target.starts_with(one)) || begin.starts_with(b"CONNECT ")
    })
}

fn find_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(END.len()).position(|pair| pair == END)
}

/// A command of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The body follows.
    Put {
        pri: u32,
        delay: u32,
        ttr: u32,
        bytes: u32,
    },
    Use(TubeName),
    /// With a time-out in seconds; `None` waits for ever.
    Reserve(Option<u32>),
    ReserveJob(u64),
    Delete(u64),
    Release {
        number: u64,
        pri: u32,
        delay: u32,
    },
    Bury {
        number: u64,
        pri: u32,
    },
    Touch(u64),
    Watch(TubeName),
    Ignore(TubeName),
    Peek(u64),
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Kick(u32),
    KickJob(u64),
    StatsJob(u64),
    StatsTube(TubeName),
    Stats,
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube(TubeName, u32),
    Quit,
}

/// The reason why a line is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadLine {
    /// It does not begin with a known command.
    UnknownCommand,
    /// The arguments do not fit the command.
    BadFormat,
}

/// Parses a line without its end.
fn read(line: &[u8]) -> Result<Order, BadLine> {
    let (command, rest) = command_of(line).ok_or(BadLine::UnknownCommand)?;
    let mut words = Words(rest);
    let order = match command {
        "put " => Order::Put {
            pri: words.u32()?,
            delay: words.u32()?,
            ttr: words.u32()?,
            bytes: words.u32()?,
        },
        "use " => Order::Use(words.tube()?),
        "reserve" => Order::Reserve(None),
        "reserve-with-timeout " => Order::Reserve(Some(words.u32()?)),
        "reserve-job " => Order::ReserveJob(words.u64()?),
        "delete " => Order::Delete(words.u64()?),
        "release " => Order::Release {
            number: words.u64()?,
            pri: words.u32()?,
            delay: words.u32()?,
        },
        "bury " => Order::Bury {
            number: words.u64()?,
            pri: words.u32()?,
        },
        "touch " => Order::Touch(words.u64()?),
        "watch " => Order::Watch(words.tube()?),
        "ignore " => Order::Ignore(words.tube()?),
        "peek " => Order::Peek(words.u64()?),
        "peek-ready" => Order::PeekReady,
        "peek-delayed" => Order::PeekDelayed,
        "peek-buried" => Order::PeekBuried,
        "kick " => Order::Kick(words.u32()?),
        "kick-job " => Order::KickJob(words.u64()?),
        "stats-job " => Order::StatsJob(words.u64()?),
        "stats-tube " => Order::StatsTube(words.tube()?),
        "stats" => Order::Stats,
        "list-tubes" => Order::ListTubes,
        "list-tube-used" => Order::ListTubeUsed,
        "list-tubes-watched" => Order::ListTubesWatched,
        "pause-tube" => Order::PauseTube(words.tube()?, words.u32()?),
        // Further arguments of `quit` are ignored.
        _ => return Ok(Order::Quit),
    };
    words.end()?;
    Ok(order)
}

/// The commands. A command stands before any shorter command that it begins with.
const COMMANDS: [&str; 24] = [
    "put ",
    "use ",
    "reserve-with-timeout ",
    "reserve-job ",
    "reserve",
    "delete ",
    "release ",
    "bury ",
    "touch ",
    "watch ",
    "ignore ",
    "peek-ready",
    "peek-delayed",
    "peek-buried",
    "peek ",
    "kick-job ",
    "kick ",
    "stats-job ",
    "stats-tube ",
    "stats",
    "list-tubes-watched",
    "list-tube-used",
    "list-tubes",
    "pause-tube",
];

fn command_of(line: &[u8]) -> Option<(&'static str, &[u8])> {
    let known = COMMANDS.into_iter().chain(["quit"]);
    let mut found = known.filter_map(|name| Some((name, line.strip_prefix(name.as_bytes())?)));
    found.next()
}

/// The arguments of a line.
#[derive(Debug)]
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// The next bytes that `is_part` accepts, after any number of spaces.
    fn next(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let text = self.0;
        let begin = text.iter().position(|byte| *byte != b' ');
        let text = text.get(begin.unwrap_or(text.len())..).unwrap_or_default();
        let end = text.iter().position(|byte| !is_part(*byte));
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        self.0 = rest;
        word
    }

    fn u64(&mut self) -> Result<u64, BadLine> {
        let digits = self.next(|byte| byte.is_ascii_digit());
        let number = str::from_utf8(digits)
            .ok()
            .and_then(|text| text.parse().ok());
        number.ok_or(BadLine::BadFormat)
    }

    fn u32(&mut self) -> Result<u32, BadLine> {
        self.u64()?.try_into().map_err(|_| BadLine::BadFormat)
    }

    fn tube(&mut self) -> Result<TubeName, BadLine> {
        let name = self.next(|byte| byte != b' ');
        TubeName::read(name).ok_or(BadLine::BadFormat)
    }

    fn end(&self) -> Result<(), BadLine> {
        self.0.is_empty().then_some(()).ok_or(BadLine::BadFormat)
    }
}
