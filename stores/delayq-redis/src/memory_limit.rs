//! Memory limit of servers: submits are refused a little before a server is full, so that memory is
//! left for the operations that drain it and for other programs that write to it.
//!
//! A submit starts the question to the server, but does not wait for its answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use delayq_core::{Error, Result};
use tokio::sync::watch;
use tokio::time::timeout_at;

use crate::connection::{self, Command, Connections, RespValue, Server};
use crate::lock::lock;

/// Maximum age of an answer. In a second, a server takes some tens of megabytes of tasks.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The memory use of a server with a limit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    used: u64,
    limit: u64,
}

impl Memory {
    /// Read from the fields of INFO; `None` if they are not shown or there is no limit.
    pub(crate) fn of(field: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        let limit = field("maxmemory").filter(|limit| *limit > 0)?;
        // Buffers for replicas and for the append-only file do not count.
        let apart = field("mem_not_counted_for_evict").unwrap_or(0);
        let used = field("used_memory")?.saturating_sub(apart);
        Some(Self { used, limit })
    }

    /// # Errors
    /// `Full` from `share` of the limit on.
    pub(crate) fn check(self, place: &str, share: f64) -> Result<()> {
        let Self { used, limit } = self;
        if !self.is_above(share) {
            return Ok(());
        }
        let detail = if used >= limit {
            format!("its memory ({used} B) is at maxmemory ({limit} B)")
        } else {
            format!("its memory ({used} B) is above {share} of maxmemory ({limit} B)")
        };
        Err(Error::full(
            place,
            detail + ": raise maxmemory, or let workers drain it",
        ))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a byte in nine petabytes makes no difference"
    )]
    fn is_above(self, share: f64) -> bool {
        self.used as f64 >= self.limit as f64 * share
    }
}

/// The last answer of a server about its memory.
#[derive(Debug, Default)]
struct MemoryAnswer {
    /// The time of the answer.
    at: Option<Instant>,
    is_asking: bool,
    /// The server does not show its memory and is not asked again.
    is_hidden: bool,
    /// The reason why it refuses submits.
    full: Option<Error>,
}

impl MemoryAnswer {
    fn is_fresh(&self) -> bool {
        self.is_hidden || self.at.is_some_and(|at| at.elapsed() < MAX_AGE)
    }

    fn verdict(&self) -> Result<()> {
        self.full.clone().map_or(Ok(()), Err)
    }

    /// The verdict, unless there was no room and the server is being asked again.
    fn known(&self) -> Option<Result<()>> {
        let is_open = self.is_asking && self.full.is_some();
        (!is_open).then(|| self.verdict())
    }
}

/// The snapshots of one server.
type Observed = Arc<watch::Sender<MemoryAnswer>>;

/// The share of a server's memory up to which it gets new tasks.
#[derive(Debug)]
pub(crate) struct Watermark {
    share: f64,
    connections: Connections,
    /// By the address of the server.
    servers: Mutex<HashMap<Arc<str>, Observed>>,
}

impl Watermark {
    pub(crate) fn new(connections: &Connections, share: f64) -> Self {
        Self {
            share,
            connections: connections.clone(),
            servers: Mutex::default(),
        }
    }

    /// Checks that the server of a slot takes tasks, by its last answer. Waits for a new answer,
    /// until `deadline`, only if the last one is old and there was no room.
    ///
    /// # Errors
    /// `Full`.
    pub(crate) async fn check(&self, slot: u16, deadline: Instant) -> Result<()> {
        let Some(server) = self.connections.routing().server_of(slot) else {
            return Ok(());
        };
        let observed = self.observed(&server);
        {
            let snapshot = observed.borrow();
            if snapshot.is_fresh() {
                return snapshot.verdict();
            }
        }
        if begin(&observed) {
            let ask = ask(server, Arc::clone(&observed), self.share, deadline);
            self.connections.spawn(ask);
        }
        // The answer may have arrived by now.
        if let Some(known) = observed.borrow().known() {
            return known;
        }
        // Runs on the thread of the connections, as the caller's runtime may have no timers.
        let decided = self.connections.run(async move {
            let mut answers = observed.subscribe();
            let answer = answers.wait_for(|snapshot| !snapshot.is_asking);
            let answer = timeout_at(deadline.into(), answer).await;
            // Without an answer the submit itself fails for the same reason.
            answer.map_or(Ok(()), |answer| {
                answer.map_or(Ok(()), |snapshot| snapshot.verdict())
            })
        });
        decided.await
    }

    fn observed(&self, server: &Server) -> Observed {
        let mut servers = lock(&self.servers);
        Arc::clone(servers.entry(server.place()).or_default())
    }
}

/// Returns true if the caller has to ask now.
fn begin(observed: &Observed) -> bool {
    observed.send_if_modified(|snapshot| {
        let begins = !snapshot.is_asking && !snapshot.is_fresh();
        snapshot.is_asking |= begins;
        begins
    })
}

async fn ask(server: Arc<Server>, observed: Observed, share: f64, deadline: Instant) {
    let info = server
        .ask(Command::read(&["INFO", "memory"]), deadline)
        .await;
    let place = server.place();
    let is_hidden = matches!(
        info,
        Err(Error::Misconfigured { .. } | Error::Corrupt { .. })
    );
    let memory = info.ok().and_then(read);
    let found = memory.map_or(Ok(()), |memory| memory.check(&place, share));
    observed.send_modify(|snapshot| {
        match (&snapshot.full, &found) {
            (None, Err(error)) => tracing::warn!(store = %place, %error, "the server is almost full: submits are refused"),
            (Some(_), Ok(())) => tracing::info!(store = %place, "the server has room: submits are accepted again"),
            _ => {}
        }
        *snapshot = MemoryAnswer {
            at: Some(Instant::now()),
            is_asking: false,
            is_hidden,
            full: found.err(),
        };
    });
}

fn read(info: RespValue) -> Option<Memory> {
    let text = info.fields().text().ok()?;
    Memory::of(|name| {
        let (_, value) = connection::info(&text).find(|(field, _)| *field == name)?;
        value.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(used: u64, limit: u64, apart: u64) -> Option<Memory> {
        Memory::of(|name| match name {
            "maxmemory" => Some(limit),
            "used_memory" => Some(used),
            "mem_not_counted_for_evict" => Some(apart),
            _ => None,
        })
    }

    #[test]
    fn a_server_is_full_from_the_share_of_its_limit_on() {
        let is_full = |used| memory(used, 1_000, 0).unwrap().check("r", 0.95).is_err();
        assert!(!is_full(949));
        assert!(is_full(950));
        assert!(memory(990, 1_000, 100).unwrap().check("r", 0.95).is_ok());
        assert_eq!(memory(u64::MAX, 0, 0), None);
    }

    #[test]
    fn one_asks_at_a_time_and_not_again_where_nothing_is_shown() {
        let observed = Observed::default();
        assert!(begin(&observed));
        assert!(!begin(&observed), "somebody asks");
        let answered = |is_hidden| MemoryAnswer {
            at: Some(Instant::now()),
            is_hidden,
            ..MemoryAnswer::default()
        };
        observed.send_replace(answered(false));
        assert!(!begin(&observed), "somebody has asked just now");
        observed.send_modify(|snapshot| snapshot.at = None);
        assert!(begin(&observed));
        observed.send_replace(answered(true));
        observed.send_modify(|snapshot| snapshot.at = None);
        assert!(!begin(&observed), "it is hidden");
    }

    #[test]
    fn a_submit_that_asks_is_not_answered_by_a_verdict_that_is_being_revised() {
        let mut snapshot = MemoryAnswer {
            full: Some(Error::Closed("x")),
            ..MemoryAnswer::default()
        };
        assert!(snapshot.known().is_some_and(|known| known.is_err()));
        snapshot.is_asking = true;
        assert_eq!(snapshot.known(), None);
        snapshot.full = None;
        assert_eq!(snapshot.known(), Some(Ok(())));
    }
}
