//! Numbers of jobs: one counter for all servers on a store.

use std::sync::Arc;

use delayq_plugin::store::{Documents, Expected};
use delayq_plugin::{Error, Result, Store};
use delayq_service::place::PlacedStore;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

/// The folder and the name of the document that holds the next number.
const FOLDER: &str = "beanstalk";
const NEXT: &str = "next";
/// The largest number of requests served by one change of the counter.
const AT_ONCE: usize = 1_024;
/// How often a change is retried after another server was faster.
const TRIES: u32 = 50;

/// The numbers requested by one put.
#[derive(Debug)]
struct NumberRequest {
    count: u64,
    first: oneshot::Sender<Result<u64>>,
}

/// Hands out increasing numbers. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    wanted: mpsc::UnboundedSender<NumberRequest>,
    _task: Arc<AbortOnDropHandle<()>>,
}

impl Numbers {
    /// The counter of a namespace.
    pub(super) fn start(store: Arc<PlacedStore>) -> Self {
        let (wanted, arrivals) = mpsc::unbounded_channel();
        let counter = NumberCounter {
            store,
            writer: delayq_plugin::TaskId::generate().to_string(),
            place: None,
        };
        let task = tokio::spawn(counter.run(arrivals));
        Self {
            wanted,
            _task: Arc::new(AbortOnDropHandle::new(task)),
        }
    }

    /// The first of `count` consecutive new numbers.
    pub(super) async fn next(&self, count: u64) -> Result<u64> {
        let (first, answer) = oneshot::channel();
        let closed = || Error::Closed("the counter of jobs");
        let sent = self.wanted.send(NumberRequest { count, first });
        sent.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

/// The counter as last seen by this server.
#[derive(Debug)]
struct NumberCounter {
    store: Arc<PlacedStore>,
    /// Makes the writes of two servers differ, so that a repeated write is recognised as the first
    /// one.
    writer: String,
    place: Option<CounterState>,
}

#[derive(Clone, Copy, Debug)]
struct CounterState {
    next: u64,
    /// The revision of the document; `None` if it does not exist.
    revision: Option<u64>,
    /// The generation of the store that it was read from.
    generation: u64,
}

impl NumberCounter {
    async fn run(mut self, mut arrivals: mpsc::UnboundedReceiver<NumberRequest>) {
        let mut all = Vec::new();
        while arrivals.recv_many(&mut all, AT_ONCE).await > 0 {
            let count = all.iter().map(|wanted| wanted.count).sum();
            let taken = self.take(count).await;
            let mut next = taken.as_ref().ok().copied().unwrap_or_default();
            for wanted in all.drain(..) {
                let answer = match &taken {
                    Ok(_) => Ok(next),
                    Err(error) => Err(error.clone()),
                };
                next += wanted.count;
                // A client that has left needs no number.
                let _ = wanted.first.send(answer);
            }
        }
    }

    async fn take(&mut self, count: u64) -> Result<u64> {
        for _ in 0..TRIES {
            let place = match self.place.take() {
                Some(place) => place,
                None => self.read().await?,
            };
            let generation = place.generation;
            if generation != self.store.generation()? {
                continue;
            }
            let next = place.next + count;
            let body = format!("{next} {}", self.writer);
            let expected = place.revision.map_or(Expected::Absent, Expected::Revision);
            let written = self.store.write_document(FOLDER, NEXT, &body, expected);
            if let delayq_plugin::store::WriteOutcome::Written(revision) = written.await? {
                let revision = Some(revision);
                self.place = Some(CounterState {
                    next,
                    revision,
                    generation,
                });
                return Ok(place.next);
            }
        }
        let store = self.store.name();
        Err(Error::unavailable(
            store,
            "the counter of jobs changes too fast",
        ))
    }

    async fn read(&self) -> Result<CounterState> {
        let generation = self.store.generation()?;
        let folder = self.store.folder(FOLDER).await?;
        let document = folder.documents.iter().find(|known| known.name == NEXT);
        let Some(document) = document else {
            return Ok(CounterState {
                next: 1,
                revision: None,
                generation,
            });
        };
        let next = document.body.split(' ').next();
        let next = next.and_then(|text| text.parse().ok());
        let next = next.ok_or_else(|| {
            let detail = "it does not begin with a number";
            Error::corrupt(format!("{FOLDER}/{NEXT}"), detail)
        })?;
        let revision = Some(document.revision);
        Ok(CounterState {
            next,
            revision,
            generation,
        })
    }
}
