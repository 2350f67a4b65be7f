//! The parameters of a request.

use std::time::Duration;

use axum::http::Uri;
use url::form_urlencoded;

use super::answer::{Refused, bad};
use super::new_job::NewJob;

/// How long a job lives unless its request says: a day.
const TTL: u32 = 86_400;
/// How long a consumer has for a job unless its request says: a minute.
const TTR: u32 = 60;
/// Most jobs of one request of a consumer.
const MAX_COUNT: u32 = 100;

/// Names and values; of several values of a name the first counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Those of an address.
    pub(super) fn of(uri: &Uri) -> Self {
        Self::read(uri.query().unwrap_or_default().as_bytes())
    }

    /// Those of a form.
    pub(super) fn read(text: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(text).into_owned();
        Self(pairs.collect())
    }

    /// These, and behind them others.
    pub(super) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut named = self.0.iter().filter(|(one, _)| one == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// The value, or nothing.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A number of seconds or tries.
    fn number(&self, name: &str, default: u32) -> Result<u32, Refused> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_number);
        number.ok_or_else(|| bad(&format!("invalid {name}")))
    }

    fn seconds(&self, name: &str, default: u32) -> Result<Duration, Refused> {
        let seconds = self.number(name, default)?;
        Ok(Duration::from_secs(u64::from(seconds)))
    }

    /// What a job is to be, without attributes.
    pub(super) fn new_job(&self) -> Result<NewJob, Refused> {
        let delay = self.seconds("delay", 0)?;
        let ttl = self.seconds("ttl", TTL)?;
        if !ttl.is_zero() && ttl < delay {
            return Err(bad("ttl is shorter than delay"));
        }
        let tries = self.number("tries", 1)?;
        let tries = u16::try_from(tries).map_err(|_| bad("invalid tries"))?;
        if tries == 0 {
            return Err(bad("tries shouldn't be zero"));
        }
        Ok(NewJob {
            delay,
            ttl,
            tries: u32::from(tries),
            attributes: std::collections::BTreeMap::new(),
        })
    }

    pub(super) fn ttr(&self) -> Result<Duration, Refused> {
        self.seconds("ttr", TTR)
    }

    pub(super) fn timeout(&self) -> Result<Duration, Refused> {
        self.seconds("timeout", 0)
    }

    /// How many jobs a consumer wants.
    pub(super) fn count(&self) -> Result<usize, Refused> {
        let count = self.number("count", 1)?;
        if !(1..=MAX_COUNT).contains(&count) {
            return Err(bad("invalid count"));
        }
        Ok(count as usize)
    }

    /// How many dead letters are meant.
    pub(super) fn limit(&self) -> Result<usize, Refused> {
        let limit: Option<i64> = self.get("limit").map_or(Some(1), |text| text.parse().ok());
        let limit = limit.filter(|limit| *limit > 0);
        let limit = limit.ok_or_else(|| bad("invalid limit"))?;
        Ok(usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// How long respawned jobs live.
    pub(super) fn respawn_ttl(&self) -> Result<Duration, Refused> {
        let ttl: Option<i64> = self
            .get("ttl")
            .map_or(Some(i64::from(TTL)), |text| text.parse().ok());
        let ttl = ttl.and_then(|ttl| u64::try_from(ttl).ok());
        let ttl = ttl.ok_or_else(|| bad("invalid ttl"))?;
        Ok(Duration::from_secs(ttl))
    }

    /// Whether an attempt does not count.
    pub(super) fn is_frozen(&self) -> bool {
        let text = self.text("freeze_tries");
        matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
    }
}
