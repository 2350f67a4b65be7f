//! A target: where the tasks of a type, or one task, are pushed to.

use std::time::Duration;

use delayq_plugin::{Backoff, FleetLimits, Rate, RetryPolicy, WorkerOptions};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::target_kinds::GrpcTarget;
use super::target_kinds::HttpTarget;
use super::target_kinds::KafkaTarget;
use super::target_kinds::ServiceTarget;
use super::{Guard, PushConfig};
use crate::policy::Retry;
use crate::span::Span;

/// The time limit of a push if the target names none.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit of an instance call if the target names none. The instance answers when its
/// workers have finished.
const SERVICE_TIMEOUT: Duration = Duration::from_mins(5);
/// The attempts of a task that instances serve; their workers have their own policies.
const SERVICE_ATTEMPTS: u32 = 20;
/// The longest time limit.
const MAX_TIMEOUT: Duration = Duration::from_mins(30);
/// The extra time of a worker over the time limit of its push, so that the push reports its own
/// end.
const MARGIN: Duration = Duration::from_secs(15);
/// The concurrent pushes of a type on one server if the target names no number.
const CONCURRENCY: usize = 64;
/// The largest number of concurrent pushes.
const MAX_CONCURRENCY: usize = 4_096;
/// The number of attempts of a worker that decides itself about the last one.
const UNLIMITED: u32 = u32::MAX;

/// The destination of a type's tasks. Exactly one of `http`, `grpc`, `kafka` and `service` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// An HTTP request for each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTarget>,
    /// A unary gRPC call for each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcTarget>,
    /// A record in a Kafka topic for each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaTarget>,
    /// For each task, a call of an instance that serves the type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTarget>,
    /// The time limit of a push: milliseconds, or a span such as `30s`; 100 ms to 30 min, default
    /// 30 s, for `service` 5 min.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The number of concurrent pushes of a type on one server; 1 to 4096, default 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// The rate of pushes of a type, over all servers; default no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<PushRate>,
    /// The retry policy of failed pushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// True if an answer with a body is kept as the reply of the task; default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_answer: Option<bool>,
    /// True if the task itself is kept as its reply instead of the answer. The task service sets
    /// this to answer queries about ended tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_task: Option<bool>,
}

/// A rate of pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PushRate {
    /// The number.
    pub pushes: u32,
    /// The time span; default 1 s.
    #[serde(default = "second")]
    pub per: Span,
}

fn second() -> Span {
    Span(Duration::from_secs(1))
}

impl Target {
    /// The kind as a metric label.
    pub(super) fn kind(&self) -> &'static str {
        if self.http.is_some() {
            "http"
        } else if self.grpc.is_some() {
            "grpc"
        } else if self.kafka.is_some() {
            "kafka"
        } else {
            "service"
        }
    }

    /// Refuses a target that a server with these options may not push to. Other servers may have
    /// other options.
    pub(super) fn allowed(&self, guard: &Guard, config: &PushConfig) -> Result<(), String> {
        match (&self.http, &self.grpc, &self.kafka) {
            (Some(http), ..) => guard.url(&http.url).map(drop),
            (_, Some(grpc), _) => guard.url(&grpc.url).map(drop),
            (.., Some(kafka)) => kafka.allowed(config),
            _ => Ok(()),
        }
    }

    /// Refuses an invalid target, and one that must not be called.
    pub fn check(&self, guard: &Guard, config: &PushConfig) -> Result<(), String> {
        match (&self.http, &self.grpc, &self.kafka, &self.service) {
            (Some(http), None, None, None) => http.check(guard)?,
            (None, Some(grpc), None, None) => grpc.check(guard)?,
            (None, None, Some(kafka), None) => kafka.check(config)?,
            (None, None, None, Some(service)) => service.check()?,
            _ => return Err("a target has exactly one of http, grpc, kafka and service".to_owned()),
        }
        let timeout = self.timeout();
        if timeout < Duration::from_millis(100) || timeout > MAX_TIMEOUT {
            return Err("timeout: 100 ms to 30 min".to_owned());
        }
        if self
            .concurrency
            .is_some_and(|most| !(1..=MAX_CONCURRENCY).contains(&most))
        {
            return Err(format!("concurrency: 1 to {MAX_CONCURRENCY}"));
        }
        self.retry.unwrap_or_default().check()?;
        match self.options().fleet.problem() {
            Some(problem) => Err(format!("rate: {problem}")),
            None => Ok(()),
        }
    }

    /// Refuses options that a task's own target may not have.
    pub fn check_of_task(&self, guard: &Guard, config: &PushConfig) -> Result<(), String> {
        let has_secrets = self
            .http
            .as_ref()
            .is_some_and(|http| http.secrets.is_some());
        if has_secrets {
            return Err(
                "a task shows its target to whoever may read it, so it has no secrets: its pushes \
                 are signed with those of the target of its type"
                    .to_owned(),
            );
        }
        if self.concurrency.is_some() || self.rate.is_some() {
            return Err(
                "concurrency and rate are those of the type: give its target them".to_owned(),
            );
        }
        self.check(guard, config)
    }

    /// Worker options for tasks with their own targets. The target itself limits the attempts.
    pub fn options_of_own() -> WorkerOptions {
        let mut options = Self::default().options();
        options.retry.max_attempts = UNLIMITED;
        options
    }

    /// The same options, for tasks whose attempts are limited by the policies of their types.
    pub fn of_policies(options: WorkerOptions) -> WorkerOptions {
        let retry = RetryPolicy {
            max_attempts: UNLIMITED,
            ..options.retry
        };
        WorkerOptions { retry, ..options }
    }

    /// The retry policy of a task's own target. A fixed wait is exact, without jitter.
    pub fn own_retry(&self) -> RetryPolicy {
        let policy = self.options().retry;
        let jitter_percent = match policy.backoff {
            Backoff::Fixed => 0,
            Backoff::Exponential => policy.jitter_percent,
        };
        RetryPolicy {
            jitter_percent,
            ..policy
        }
    }

    /// The time limit of a push.
    pub fn timeout(&self) -> Duration {
        let usual = match self.service {
            Some(_) => SERVICE_TIMEOUT,
            None => TIMEOUT,
        };
        self.timeout.map_or(usual, |span| span.0)
    }

    /// The time an instance may take to settle a task with a separate request.
    pub fn settle_within(&self) -> Duration {
        let service = self.service.as_ref();
        service.map_or(Duration::ZERO, ServiceTarget::settle_within)
    }

    /// The target of a type that instances serve and that has no target of its own.
    pub fn of_service() -> Self {
        Self {
            service: Some(ServiceTarget::default()),
            ..Self::default()
        }
    }

    /// Worker options for this target.
    pub fn options(&self) -> WorkerOptions {
        let usual = match self.service {
            Some(_) => SERVICE_ATTEMPTS,
            None => RetryPolicy::DEFAULT.max_attempts,
        };
        let rate = self.rate.map(|rate| Rate::new(rate.pushes, rate.per.0));
        WorkerOptions {
            retry: self.retry.unwrap_or_default().policy(usual),
            // A task without a target waits for one indefinitely.
            max_releases: u32::MAX,
            timeout: self.timeout().saturating_add(self.settle_within()) + MARGIN,
            concurrency: self.concurrency.unwrap_or(CONCURRENCY),
            fleet: FleetLimits {
                concurrency: None,
                rate,
            },
            ..WorkerOptions::DEFAULT
        }
    }

    /// The destination, for the log of actions. Leaves out the query, which may contain secrets.
    pub fn place(&self) -> String {
        let bare = |url: &str| url.split('?').next().unwrap_or_default().to_owned();
        match (&self.http, &self.grpc, &self.kafka) {
            (Some(http), ..) => bare(&http.url),
            (_, Some(grpc), _) => format!("{} {}/{}", bare(&grpc.url), grpc.service, grpc.method),
            (.., Some(kafka)) => format!("topic {} of {}", kafka.topic, kafka.cluster),
            _ if self.service.is_some() => "instances of the type".to_owned(),
            _ => String::new(),
        }
    }

    /// A copy without its secrets.
    pub fn shown(&self) -> Self {
        let mut shown = self.clone();
        if let Some(http) = &mut shown.http {
            http.hide();
        }
        if let Some(grpc) = &mut shown.grpc {
            grpc.hide();
        }
        shown
    }

    /// Fills placeholders and missing secrets from the previous target.
    pub fn keep_from(&mut self, before: Option<&Self>) {
        let before = before.cloned().unwrap_or_default();
        if let Some(http) = &mut self.http {
            http.keep_from(before.http.as_ref());
        }
        if let Some(grpc) = &mut self.grpc {
            grpc.keep_from(before.grpc.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_target_are_those_of_its_worker() {
        let target = |text: &str| serde_json::from_str::<Target>(text).unwrap();
        let plain = target("{}").options();
        assert_eq!((plain.concurrency, plain.fleet.rate), (CONCURRENCY, None));
        assert_eq!(plain.retry, RetryPolicy::DEFAULT);
        let wanted = target(
            r#"{"timeout": "2s", "concurrency": 3, "rate": {"pushes": 100, "per": "1m"},
                "retry": {"attempts": 7, "wait": "20m", "is_fixed": true}}"#,
        );
        let options = wanted.options();
        let minute = Duration::from_mins(1);
        assert_eq!(options.fleet.rate, Some(Rate::new(100, minute)));
        assert_eq!(
            (options.concurrency, wanted.timeout()),
            (3, Duration::from_secs(2))
        );
        // The push says how it ended before its worker's time is up.
        assert!(options.timeout > wanted.timeout());
        let retry = options.retry;
        assert_eq!((retry.max_attempts, retry.backoff), (7, Backoff::Fixed));
        assert_eq!((retry.base, retry.cap), (20 * minute, 20 * minute));
    }

    #[test]
    fn the_log_of_actions_gets_no_query() {
        let target = r#"{"http": {"url": "https://example.org/hook?key=secret"}}"#;
        let target: Target = serde_json::from_str(target).unwrap();
        assert_eq!(target.place(), "https://example.org/hook");
    }
}
