//! The steps of a world. Everything random is decided before a step is taken, so that a list of steps
//! repeats what happened.

use super::call::{End, Kind};
use super::row::Ms;
use super::store::{Ask, Op};

/// What the network does to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Net {
    /// Applied and answered at once.
    Good,
    /// Never arrives; the caller gives up.
    RequestLost,
    /// Applied; the caller gives up waiting for the answer.
    ReplyLost,
    /// The caller gives up; applied later.
    Late,
    /// Applied and answered, and applied again later.
    Twice,
    /// Under way until it is delivered and answered by steps of their own.
    Slow,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Time passes.
    Wait { ms: Ms },
    /// A submitter sends its task, or sends it again.
    Submit { id: u8, ask: Ask, net: Net },
    /// An operator changes a task.
    Operate { id: u8, op: Op, net: Net },
    /// An operator pauses the type, on the store's clock.
    Pause { ms: Ms },
    /// A handler calls the store.
    Call { handler: u8, kind: Kind, net: Net },
    /// A slow call is applied.
    Deliver { handler: u8, kind: Kind },
    /// A slow call is answered.
    Answer { handler: u8, kind: Kind },
    /// The caller gives up a slow call.
    GiveUp { handler: u8, kind: Kind },
    /// A request that its caller has given up arrives.
    Stray { place: u8 },
    /// A worker comes back.
    Finish { handler: u8, place: u8, end: End },
    /// A handler looks at its locks.
    Look { handler: u8 },
    /// A handler's process is killed.
    Crash { handler: u8 },
    /// It is started again.
    Restart { handler: u8 },
    /// A handler's process is stopped, as by SIGSTOP.
    Stop { handler: u8 },
    /// It goes on.
    Continue { handler: u8 },
    /// The store's process is killed and starts again; without its last writes when the power failed.
    CrashStore { undo: u8 },
    /// The store's clock is set.
    SetStoreClock { ahead: Ms },
    /// The clock of a handler's host is set.
    SetCallerClock { handler: u8, ahead: Ms },
}
