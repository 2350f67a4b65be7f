//! The limit of open files: each connection is one.

/// Files beside connections: stores, logs, the listener.
const OTHERS: u64 = 100;

/// Raises the limit of this process as far as it may, and says what is allowed where that is too
/// little for `connections`.
#[cfg(unix)]
pub(crate) fn raise(connections: usize) -> Option<u64> {
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
    present.filter(|present| *present < needed)
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(crate) fn raise(_: usize) -> Option<u64> {
    None
}
