//! Orders: what a line of the protocol asks for.

use super::tube_name::TubeName;

/// Longest line, its end included. A longer one is no order.
pub(super) const MAX_LINE_BYTES: usize = 224;

/// What a client asks for.
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
    /// With `None` it waits without an end; seconds.
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

/// Why a line is no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadLine {
    /// It begins with no command.
    UnknownCommand,
    /// Its command has other arguments.
    BadFormat,
}

/// Reads a line without its end.
pub(super) fn read(line: &[u8]) -> Result<Order, BadLine> {
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
        // Whatever follows.
        _ => return Ok(Order::Quit),
    };
    words.end()?;
    Ok(order)
}

/// The commands, each before those that it begins with.
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
    /// The next bytes that `is_part` accepts; any number of spaces stand before them.
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
