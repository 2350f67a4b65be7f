//! Questions to servers that may be dead, stopped or still loading, and waits for an answer.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult};

use crate::rig::PATIENCE;

/// How long a server may take to answer. One that is stopped never does.
const ANSWER: Duration = Duration::from_secs(1);
/// How long between two questions: often enough to time a fail-over, and no load to speak of.
const PAUSE: Duration = Duration::from_millis(10);

/// A connection on which a call fails after a second without an answer.
///
/// # Errors
/// Nobody listens at `url`, or the server refuses the login.
pub async fn connect(url: &str) -> RedisResult<MultiplexedConnection> {
    connect_within(url, ANSWER).await
}

/// A connection on which a call fails only once nothing can come any more: for what is not asked
/// again.
///
/// # Errors
/// As with [`connect`].
pub async fn connect_patiently(url: &str) -> RedisResult<MultiplexedConnection> {
    connect_within(url, PATIENCE).await
}

async fn connect_within(url: &str, answer: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(answer))
        .set_response_timeout(Some(answer));
    let client = Client::open(url)?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Sends one command over a connection of its own.
///
/// # Errors
/// The server is not reached, does not answer within a second, or answers with an error.
pub async fn ask<T: FromRedisValue>(url: &str, words: &[&str]) -> RedisResult<T> {
    command(words).query_async(&mut connect(url).await?).await
}

/// The fields of a section of `INFO`.
///
/// # Errors
/// As with [`ask`].
pub async fn info(url: &str, section: &str) -> RedisResult<HashMap<String, String>> {
    let text: String = ask(url, &["INFO", section]).await?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let owned = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(owned.collect())
}

/// How many replicas have all that a master has sent them. One whose first copy has just arrived
/// may be up and hear nothing for a second more.
///
/// # Errors
/// As with [`ask`].
pub async fn replicas_that_hear(url: &str, wanted: usize) -> RedisResult<usize> {
    let mut connection = connect(url).await?;
    // A message changes nothing, and goes to the replicas like a write.
    let message = command(&["PUBLISH", "are-you-there", ""]);
    message.exec_async(&mut connection).await?;
    let wait = command(&["WAIT", &wanted.to_string(), "100"]);
    wait.query_async(&mut connection).await
}

/// A command of these words.
#[must_use]
pub fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}

/// Asks every 10 ms until the answer is `Ok`.
///
/// # Panics
/// After [`PATIENCE`], with the last reason why it is not.
pub async fn until_ok<T, F: Future<Output = Result<T, String>>>(
    what: &str,
    mut question: impl FnMut() -> F,
) -> T {
    let last = std::sync::Mutex::new(String::new());
    let asking = async {
        loop {
            match question().await {
                Ok(answer) => return answer,
                Err(why) => *last.lock().expect("no holder panics") = why,
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let Ok(answer) = tokio::time::timeout(PATIENCE, asking).await else {
        panic!("{what}: {}", last.into_inner().expect("no holder panics"));
    };
    answer
}
