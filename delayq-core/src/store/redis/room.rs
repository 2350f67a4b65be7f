//! Whether servers have room for new tasks. Submits are refused a little before a server is full, so that there
//! is memory left for what drains it and for other programs that write to it.
//!
//! The look at a server goes beside the submits that give rise to it, not before them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout_at;

use super::client::{Client, Command, Node, Reply, Route};
use crate::error::{Error, Result};

/// How old a look may be. In a second, a server takes some tens of megabytes of tasks.
const LOOK: Duration = Duration::from_secs(1);

/// The memory of a server that has a limit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    used: u64,
    limit: u64,
}

impl Memory {
    /// Of the fields of INFO; nothing when they are not shown or there is no limit.
    pub(super) fn of(field: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        let limit = field("maxmemory").filter(|limit| *limit > 0)?;
        // What waits to be sent to replicas or written to the append-only file does not count for the limit.
        let apart = field("mem_not_counted_for_evict").unwrap_or(0);
        let used = field("used_memory")?.saturating_sub(apart);
        Some(Self { used, limit })
    }

    /// # Errors
    /// `Full` from `share` of the limit on.
    pub(super) fn check(self, place: &str, share: f64) -> Result<()> {
        let Self { used, limit } = self;
        if !self.is_above(share) {
            return Ok(());
        }
        let detail = if used >= limit {
            format!("its memory ({used} B) is at maxmemory ({limit} B)")
        } else {
            format!("its memory ({used} B) is above {share} of maxmemory ({limit} B)")
        };
        Err(Error::Full {
            store: place.to_owned(),
            detail: detail + ": raise maxmemory, or let workers drain it",
        })
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a byte in nine petabytes makes no difference"
    )]
    fn is_above(self, share: f64) -> bool {
        self.used as f64 >= self.limit as f64 * share
    }
}

/// What the last look at a server has shown.
#[derive(Debug, Default)]
pub(super) struct Room {
    seen: watch::Sender<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// When the last look ended.
    at: Option<Instant>,
    is_looking: bool,
    /// The server does not show it, and is not asked again.
    is_hidden: bool,
    /// Why it takes no tasks.
    full: Option<Error>,
}

impl Seen {
    fn is_fresh(&self) -> bool {
        self.is_hidden || self.at.is_some_and(|at| at.elapsed() < LOOK)
    }

    fn verdict(&self) -> Result<()> {
        self.full.clone().map_or(Ok(()), Err)
    }
}

impl Room {
    /// Whether the caller has to look now.
    fn begin(&self) -> bool {
        self.seen.send_if_modified(|seen| {
            let begins = !seen.is_looking && !seen.is_fresh();
            seen.is_looking |= begins;
            begins
        })
    }

    /// What has been seen; nothing when there was no room, and somebody looks whether there is now.
    fn known(&self) -> Option<Result<()>> {
        let seen = self.seen.borrow();
        let is_in_doubt = seen.is_looking && seen.full.is_some();
        (!is_in_doubt).then(|| seen.verdict())
    }

    async fn decided(&self) -> Result<()> {
        let mut seen = self.seen.subscribe();
        let seen = seen.wait_for(|seen| !seen.is_looking).await;
        // The sender is in `self`.
        seen.map_or(Ok(()), |seen| seen.verdict())
    }

    fn note(&self, place: &str, found: Result<()>, is_hidden: bool) {
        self.seen.send_modify(|seen| {
            match (&seen.full, &found) {
                (None, Err(error)) => tracing::warn!(store = place, %error, "submits are refused"),
                (Some(_), Ok(())) => tracing::info!(store = place, "submits are taken again"),
                _ => {}
            }
            *seen = Seen {
                at: Some(Instant::now()),
                is_looking: false,
                is_hidden,
                full: found.err(),
            };
        });
    }
}

/// Up to which share of its memory a server is given new tasks.
#[derive(Clone, Debug)]
pub(super) struct Watermark {
    share: f64,
    route: Route,
    runtime: Handle,
}

impl Watermark {
    pub(super) fn new(client: &Client, share: f64) -> Self {
        Self {
            share,
            route: client.route().clone(),
            runtime: client.runtime().clone(),
        }
    }

    /// Whether the server of a slot takes tasks, as far as the last look has shown. Only where that was long
    /// ago, and there was no room, is a new one waited for, until `deadline`.
    ///
    /// # Errors
    /// `Full`.
    pub(super) async fn check(&self, slot: u16, deadline: Instant) -> Result<()> {
        let Some(node) = self.route.node(slot) else {
            return Ok(());
        };
        {
            let seen = node.room.seen.borrow();
            if seen.is_fresh() {
                return seen.verdict();
            }
        }
        if node.room.begin() {
            let look = look(Arc::clone(&node), self.share, deadline);
            self.runtime.spawn(look);
        }
        // The look may have ended by now.
        if let Some(known) = node.room.known() {
            return known;
        }
        // There, as the caller's runtime may have no timers.
        let decided = self.runtime.spawn(async move {
            let decided = timeout_at(deadline.into(), node.room.decided()).await;
            // The submit fails for the same reason as the look.
            decided.unwrap_or(Ok(()))
        });
        decided.await.unwrap_or(Ok(()))
    }
}

async fn look(node: Arc<Node>, share: f64, deadline: Instant) {
    let info = node.ask(Command::read(&["INFO", "memory"]), deadline).await;
    let place = node.place();
    let is_hidden = matches!(
        info,
        Err(Error::Misconfigured { .. } | Error::Corrupt { .. })
    );
    let memory = info.ok().and_then(read);
    let found = memory.map_or(Ok(()), |memory| memory.check(&place, share));
    node.room.note(&place, found, is_hidden);
}

fn read(info: Reply) -> Option<Memory> {
    let info = info.fields().text().ok()?;
    Memory::of(|name| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(field, _)| *field == name)?;
        value.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(used: u64, apart: u64, limit: u64) -> Option<Memory> {
        Memory::of(|name| match name {
            "used_memory" => Some(used),
            "mem_not_counted_for_evict" => Some(apart),
            "maxmemory" => Some(limit),
            _ => None,
        })
    }

    #[test]
    fn without_a_limit_there_is_always_room() {
        assert_eq!(memory(1_000, 0, 0), None);
        assert_eq!(Memory::of(|_| None), None);
    }

    #[test]
    fn there_is_room_up_to_the_share_and_what_the_server_does_not_count_is_not_counted() {
        let check = |used, apart, share| {
            let memory = memory(used, apart, 1_000).unwrap();
            memory.check("redis://h:1/0", share)
        };
        assert_eq!(check(949, 0, 0.95), Ok(()));
        assert_eq!(check(999, 50, 0.95), Ok(()));
        assert_eq!(check(999, 0, 1.0), Ok(()));
        let above = check(1_000, 50, 0.95).unwrap_err().to_string();
        assert!(
            above.contains("(950 B) is above 0.95 of maxmemory (1000 B)"),
            "{above}"
        );
        let full = check(1_000, 0, 0.95).unwrap_err().to_string();
        assert!(full.contains("(1000 B) is at maxmemory (1000 B)"), "{full}");
    }

    #[test]
    fn one_looks_at_a_time_and_not_again_where_nothing_is_shown() {
        let room = Room::default();
        assert!(room.begin());
        assert!(!room.begin(), "somebody looks");
        room.note("redis://h:1/0", Ok(()), false);
        assert!(!room.begin(), "somebody has looked just now");
        room.seen.send_modify(|seen| seen.at = None);
        assert!(room.begin());
        room.note("redis://h:1/0", Ok(()), true);
        room.seen.send_modify(|seen| seen.at = None);
        assert!(!room.begin(), "it is hidden");
    }

    #[tokio::test]
    async fn while_somebody_looks_whether_there_is_room_again_the_others_wait() {
        let room = Room::default();
        assert!(room.begin());
        assert_eq!(room.known(), Some(Ok(())), "it was not full so far");
        let full = Error::Full {
            store: "redis://h:1/0".to_owned(),
            detail: "full".to_owned(),
        };
        room.note("redis://h:1/0", Err(full.clone()), false);
        assert_eq!(room.known(), Some(Err(full.clone())), "nobody looks");
        assert_eq!(room.decided().await, Err(full.clone()));
        for found in [Err(full), Ok(())] {
            room.seen.send_modify(|seen| seen.at = None);
            assert!(room.begin() && room.known().is_none());
            let mut decided = std::pin::pin!(room.decided());
            tokio::select! {
                biased;
                early = &mut decided => panic!("somebody still looks: {early:?}"),
                () = std::future::ready(()) => {}
            }
            room.note("redis://h:1/0", found.clone(), false);
            assert_eq!(decided.await, found);
        }
    }
}
