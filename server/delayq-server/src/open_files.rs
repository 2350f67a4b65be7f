//! The limit of open files; each connection needs one.

/// Files other than connections: stores, logs, the listener.
const OTHERS: u64 = 100;

/// The limit of open files is too low.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "only {allowed} files may be open, and {needed} are needed: raise the limit, such as with \
     LimitNOFILE={needed}, or lower connections.max"
)]
pub(crate) struct TooFewFiles {
    allowed: u64,
    needed: u64,
}

/// Raises the limit of this process as far as allowed. Returns an error if that is too little for
/// `connections`.
#[cfg(unix)]
pub(crate) fn raise(connections: usize) -> Option<TooFewFiles> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = u64::try_from(connections).ok()?.saturating_add(OTHERS);
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |current: Option<u64>| current.is_none_or(|current| current >= needed);
    if is_enough(limit.current) {
        return None;
    }
    let raised = Rlimit {
        current: Some(limit.maximum.map_or(needed, |most| most.min(needed))),
        maximum: limit.maximum,
    };
    let present = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    };
    let too_few = present.filter(|present| *present < needed);
    too_few.map(|allowed| TooFewFiles { allowed, needed })
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(crate) fn raise(_: usize) -> Option<TooFewFiles> {
    None
}
