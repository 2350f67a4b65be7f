//! Options of a type in the configuration.

use std::fmt;
use std::time::Duration;

use delayq_core::history::Recording;
use delayq_core::{Backoff, Delivery, LatePolicy, OnLate, Rate, RetryPolicy, WorkerOptions};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::{put, value};

/// One table of `types`. Its options replace the worker's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypeOptions {
    #[serde(default)]
    retry: Option<RetryValue>,
    #[serde(default, deserialize_with = "value::count")]
    max_releases: Option<u32>,
    #[serde(default, deserialize_with = "value::timeout")]
    timeout: Option<Duration>,
    #[serde(default, deserialize_with = "value::lock")]
    lock: Option<Duration>,
    #[serde(default, deserialize_with = "value::count")]
    concurrency: Option<u32>,
    #[serde(default, deserialize_with = "value::count")]
    weight: Option<u32>,
    delivery: Option<DeliveryWord>,
    blocking: Option<bool>,
    on_late: Option<OnLateWord>,
    #[serde(default, deserialize_with = "value::span")]
    late_after: Option<Duration>,
    #[serde(default, deserialize_with = "value::span")]
    late_spread: Option<Duration>,
    #[serde(default, deserialize_with = "value::count")]
    fleet_concurrency: Option<u32>,
    #[serde(default, deserialize_with = "value::rate")]
    fleet_rate: Option<Rate>,
    #[serde(default, deserialize_with = "value::count")]
    max_pending: Option<u32>,
    #[serde(default, deserialize_with = "value::count")]
    shards: Option<u32>,
    #[serde(default, deserialize_with = "value::recording")]
    history: Option<Recording>,
    #[serde(default, deserialize_with = "value::kept_for")]
    history_retention: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeliveryWord {
    AtLeastOnce,
    AtMostOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnLateWord {
    Run,
    Drop,
    Dead,
    Spread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BackoffWord {
    Fixed,
    Exponential,
}

/// `"never"`, or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryValue {
    Never,
    Policy(RetryOptions),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryOptions {
    #[serde(default, deserialize_with = "value::count")]
    max: Option<u32>,
    backoff: Option<BackoffWord>,
    #[serde(default, deserialize_with = "value::span")]
    base: Option<Duration>,
    #[serde(default, deserialize_with = "value::span")]
    cap: Option<Duration>,
    #[serde(default, deserialize_with = "value::percent")]
    jitter: Option<u8>,
}

impl TypeOptions {
    /// Applies `other` over these options.
    pub(super) fn merge(&mut self, other: Self) {
        match (&mut self.retry, other.retry) {
            (Some(RetryValue::Policy(retry)), Some(RetryValue::Policy(other))) => {
                retry.merge(other);
            }
            (retry, other) => put(retry, other),
        }
        put(&mut self.max_releases, other.max_releases);
        put(&mut self.timeout, other.timeout);
        put(&mut self.lock, other.lock);
        put(&mut self.concurrency, other.concurrency);
        put(&mut self.weight, other.weight);
        put(&mut self.delivery, other.delivery);
        put(&mut self.blocking, other.blocking);
        put(&mut self.on_late, other.on_late);
        put(&mut self.late_after, other.late_after);
        put(&mut self.late_spread, other.late_spread);
        put(&mut self.fleet_concurrency, other.fleet_concurrency);
        put(&mut self.fleet_rate, other.fleet_rate);
        put(&mut self.max_pending, other.max_pending);
        put(&mut self.shards, other.shards);
        put(&mut self.history, other.history);
        put(&mut self.history_retention, other.history_retention);
    }

    /// A worker's options with these applied over them. Rules about several options are checked
    /// here as `#[task_worker]` does; the registry of workers checks the rest.
    pub(crate) fn over(&self, own: WorkerOptions) -> Result<WorkerOptions, &'static str> {
        let delivery = self.delivery.map(Delivery::from);
        if delivery == Some(Delivery::AtMostOnce)
            && matches!(self.retry, Some(RetryValue::Policy(_)))
        {
            return Err(
                "`delivery = \"at_most_once\"` never starts a task twice: remove this \
                        `retry`, or remove the `delivery`",
            );
        }
        let concurrency = self.concurrency.and_then(|most| usize::try_from(most).ok());
        let mut fleet = own.fleet;
        put(&mut fleet.concurrency, self.fleet_concurrency);
        put(&mut fleet.rate, self.fleet_rate);
        Ok(WorkerOptions {
            retry: match self.retry {
                None => own.retry,
                Some(RetryValue::Never) => RetryPolicy::NEVER,
                Some(RetryValue::Policy(retry)) => retry.over(own.retry)?,
            },
            max_releases: self.max_releases.unwrap_or(own.max_releases),
            timeout: self.timeout.unwrap_or(own.timeout),
            lock: self.lock.unwrap_or(own.lock),
            concurrency: concurrency.unwrap_or(own.concurrency),
            pool: own.pool,
            weight: self.weight.unwrap_or(own.weight),
            delivery: delivery.unwrap_or(own.delivery),
            blocking: self.blocking.unwrap_or(own.blocking),
            late: self.late(own.late)?,
            fleet,
            max_pending: self.max_pending.map(u64::from).or(own.max_pending),
            shards: self.shards.or(own.shards),
            history: self.history.or(own.history),
            history_retention: self.history_retention.or(own.history_retention),
        })
    }

    fn late(&self, own: LatePolicy) -> Result<LatePolicy, &'static str> {
        let action = self.late_action(own.action)?;
        let may_have_after = self.late_after.is_some() || own.action != OnLate::Run;
        match (action, self.late_after) {
            (OnLate::Run, Some(_)) => Err(
                "a type with `on_late = \"run\"`, the default, runs tasks however late: remove \
                 `late_after`, or write `on_late = \"drop\"`, `\"dead\"` or `\"spread\"`",
            ),
            (OnLate::Run, None) => Ok(LatePolicy {
                action,
                after: Duration::ZERO,
            }),
            (_, None) if !may_have_after => {
                Err("say how late is too late: add for example `late_after = \"10m\"`")
            }
            (_, after) => Ok(LatePolicy {
                action,
                after: after.unwrap_or(own.after),
            }),
        }
    }

    fn late_action(&self, own: OnLate) -> Result<OnLate, &'static str> {
        let spread = match own {
            OnLate::Spread(span) => Some(span),
            _ => None,
        };
        let action = match self.on_late {
            None => own,
            Some(OnLateWord::Run) => OnLate::Run,
            Some(OnLateWord::Drop) => OnLate::Drop,
            Some(OnLateWord::Dead) => OnLate::Dead,
            Some(OnLateWord::Spread) => {
                let span = self.late_spread.or(spread);
                return span.map(OnLate::Spread).ok_or(
                    "say over which time late tasks are spread: add for example \
                     `late_spread = \"30m\"`",
                );
            }
        };
        match (action, self.late_spread) {
            (OnLate::Spread(_), Some(span)) => Ok(OnLate::Spread(span)),
            (_, Some(_)) => Err(
                "`late_spread` is the time over which `on_late = \"spread\"` spreads tasks: write \
                 that, too, or remove `late_spread`",
            ),
            (action, None) => Ok(action),
        }
    }
}

impl RetryOptions {
    fn merge(&mut self, other: Self) {
        put(&mut self.max, other.max);
        put(&mut self.backoff, other.backoff);
        put(&mut self.base, other.base);
        put(&mut self.cap, other.cap);
        put(&mut self.jitter, other.jitter);
    }

    fn over(&self, own: RetryPolicy) -> Result<RetryPolicy, &'static str> {
        let backoff = self.backoff.map_or(own.backoff, Backoff::from);
        let base = self.base.unwrap_or(own.base);
        let mut cap = self.cap.unwrap_or(own.cap);
        if base > cap {
            // A fixed wait longer than the default cap is its own cap.
            if self.cap.is_some() || backoff != Backoff::Fixed {
                return Err(
                    "the first wait of `retry`, `base`, is longer than the longest one, \
                            `cap` (10 minutes by default): shorten it or lengthen `cap`",
                );
            }
            cap = base;
        }
        Ok(RetryPolicy {
            max_attempts: self.max.unwrap_or(own.max_attempts),
            backoff,
            base,
            cap,
            jitter_percent: self.jitter.unwrap_or(own.jitter_percent),
        })
    }
}

impl<'de> Deserialize<'de> for RetryValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RetryVisitor)
    }
}

struct RetryVisitor;

impl<'de> Visitor<'de> for RetryVisitor {
    type Value = RetryValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a table such as { max = 5, backoff = \"exponential\", base = \"1s\" }, or \"never\"",
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RetryValue, E> {
        match text {
            "never" => Ok(RetryValue::Never),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RetryValue, A::Error> {
        RetryOptions::deserialize(MapAccessDeserializer::new(map)).map(RetryValue::Policy)
    }
}

impl From<DeliveryWord> for Delivery {
    fn from(word: DeliveryWord) -> Self {
        match word {
            DeliveryWord::AtLeastOnce => Self::AtLeastOnce,
            DeliveryWord::AtMostOnce => Self::AtMostOnce,
        }
    }
}

impl From<BackoffWord> for Backoff {
    fn from(word: BackoffWord) -> Self {
        match word {
            BackoffWord::Fixed => Self::Fixed,
            BackoffWord::Exponential => Self::Exponential,
        }
    }
}
