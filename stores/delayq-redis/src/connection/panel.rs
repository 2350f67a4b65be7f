//! Panel: servers that are all asked the same, at the same time and again and again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};
use tokio::time::timeout;

use super::fault::{self, ConnectError};
use super::settings::{Kind, Settings};
use super::wire::extract;
use crate::config::Address;

/// Number of answers after which an answer from an earlier election is believed: somebody has
/// recreated the servers.
pub(super) const DISBELIEF: u32 = 10;

/// Factor for the time limit until the first server has answered: a TLS handshake with a busy
/// machine is slow, and nothing else waits for it.
const FIRST: u32 = 4;

/// The answers of one server, one for each command.
pub(super) type Answers = Vec<RedisResult<Value>>;

/// The connections to the servers of the panel.
pub(super) struct Panel {
    settings: Arc<Settings>,
    kind: Kind,
    /// The time limit for one server; the others are asked at the same time.
    patience: Duration,
    has_answered: bool,
    connections: HashMap<Address, MultiplexedConnection>,
    /// How often in a row an earlier election was reported.
    disbelieved: u32,
}

impl Panel {
    pub(super) fn new(settings: &Arc<Settings>, kind: Kind, patience: Duration) -> Self {
        Self {
            settings: Arc::clone(settings),
            kind,
            patience,
            has_answered: false,
            connections: HashMap::new(),
            disbelieved: 0,
        }
    }

    /// Asks all servers. Returns the answers of each, or its error; a server that is only slow
    /// counts as busy.
    pub(super) async fn ask(
        &mut self,
        addresses: &[Address],
        question: &Pipeline,
    ) -> Vec<Result<Answers, ConnectError>> {
        let within = if self.has_answered {
            self.patience
        } else {
            self.patience * FIRST
        };
        let ask = |address| timeout(within, self.ask_one(address, question));
        let asked = join_all(addresses.iter().map(ask)).await;
        let mut all = Vec::with_capacity(asked.len());
        for (address, asked) in addresses.iter().zip(asked) {
            self.connections.remove(address);
            let asked = asked.unwrap_or_else(|_| Err(self.no_answer(address, within)));
            self.has_answered |= asked.is_ok();
            all.push(asked.map(|(answers, connection)| {
                if answers.iter().all(Result::is_ok) {
                    self.connections.insert(address.clone(), connection);
                }
                answers
            }));
        }
        all
    }

    async fn ask_one(
        &self,
        address: &Address,
        question: &Pipeline,
    ) -> Result<(Answers, MultiplexedConnection), ConnectError> {
        let mut connection = match self.connections.get(address) {
            Some(connection) => connection.clone(),
            None => self.settings.open_quiet(self.kind, address).await?,
        };
        let answers = connection.send_packed_commands(question, 0, question.len());
        match answers.await {
            Ok(answers) => Ok((answers.into_iter().map(extract).collect(), connection)),
            Err(error) => Err(ConnectError::of(&self.place_of(address), &error)),
        }
    }

    /// The address of a server, as a URL without secrets.
    pub(super) fn place_of(&self, address: &Address) -> Arc<str> {
        self.settings.place_of(self.kind, address)
    }

    fn no_answer(&self, address: &Address, within: Duration) -> ConnectError {
        let place = self.place_of(address);
        let hint = fault::hint(&place);
        ConnectError::busy(&place, format!("no answer within {within:?}; {hint}"))
    }

    /// Returns true if an answer can be believed: always, unless it `is_older` than an earlier one.
    /// An older one is believed after [`DISBELIEF`] repetitions, each reported by the whole panel.
    pub(super) fn believes(&mut self, is_older: bool, is_told_by_all: bool) -> bool {
        self.disbelieved = if is_older && is_told_by_all {
            self.disbelieved + 1
        } else {
            0
        };
        !is_older || self.disbelieved >= DISBELIEF
    }
}
