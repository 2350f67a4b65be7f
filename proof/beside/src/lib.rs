//! What the driver and the program of both releases say to each other: commands, answers, and the
//! lines that workers leave in a file.
//!
//! It is compiled against both releases, and so uses nothing of delayq.

mod command;
mod line;

pub use command::{Answer, Command, Known, READY};
pub use line::{Line, What};

/// Tasks without trouble.
pub const FAST: &str = "beside.fast";
/// A former name of [`FAST`].
pub const FORMER: &str = "beside.former";
/// Tasks that are tried again.
pub const RETRIED: &str = "beside.retried";
/// A type of several shards on Redis.
pub const HOT: &str = "beside.hot";
/// Tasks that start at most once.
pub const ONCE: &str = "beside.once";
/// Tasks with a short lock.
pub const HELD: &str = "beside.held";
/// A recurring task.
pub const TICK: &str = "beside.tick";
/// Every type that is served.
pub const ALL: [&str; 7] = [FAST, FORMER, RETRIED, HOT, ONCE, HELD, TICK];
