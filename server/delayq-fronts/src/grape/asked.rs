//! Requests of Grape clients.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::request::Parts;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq_plugin::{TaskId, TaskType};
use delayq_service::access::Scope;

use super::Grape;
use super::refusal::GrapeError;
use delayq_service::context::Context;

/// The prefix of a task id whose job id is not valid as a task id.
const ENCODED: &str = "b64:";

/// Query parameters. The first value of a name counts.
#[derive(Clone, Debug)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    pub(super) fn of(parts: &Parts) -> Self {
        Self::read(parts.uri.query().unwrap_or_default())
    }

    pub(super) fn read(query: &str) -> Self {
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// A parameter, if present.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A parameter, if present and not empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// The name of the tube.
    pub(super) fn tube(&self) -> Result<&str, GrapeError> {
        self.given("tube").ok_or_else(GrapeError::no_tube)
    }

    /// The id of the task for the job.
    pub(super) fn id(&self) -> Result<TaskId, GrapeError> {
        task_id(self.given("jid").ok_or_else(GrapeError::no_id)?)
    }

    /// The delay in milliseconds; default 0.
    pub(super) fn delay(&self) -> Result<i64, GrapeError> {
        let dtr = self.get("dtr").unwrap_or("0");
        dtr.parse().map_err(|_| GrapeError::bad_delay())
    }

    /// The time to run in milliseconds; default 0.
    pub(super) fn time(&self) -> Result<i64, GrapeError> {
        let ttr = self.get("ttr").unwrap_or("0");
        ttr.parse().map_err(|_| GrapeError::bad_time())
    }

    /// The number of jobs; default 1.
    pub(super) fn most(&self, bound: usize) -> usize {
        let max: Option<i64> = self.get("max").and_then(|text| text.parse().ok());
        usize::try_from(max.unwrap_or(1))
            .unwrap_or(1)
            .clamp(1, bound)
    }

    /// The time to wait for the first job, given in milliseconds. The original has no wait.
    pub(super) fn wait(&self) -> Duration {
        let ms = self.get("wait").and_then(|text| text.parse().ok());
        Duration::from_millis(ms.unwrap_or(0))
    }
}

/// An admitted request about an existing tube.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) client: Context,
    pub(super) params: Params,
    pub(super) tube: TaskType,
}

impl Asked {
    pub(super) async fn of(grape: &Grape, parts: &Parts, scope: Scope) -> Result<Self, GrapeError> {
        let client = grape.client(parts, scope).await?;
        let params = Params::of(parts);
        let tube = params.tube()?.to_owned();
        let tube = grape.tubes.known(&client, &tube).await?;
        Ok(Self {
            client,
            params,
            tube,
        })
    }
}

/// The id of the task for a job.
pub(super) fn task_id(jid: &str) -> Result<TaskId, GrapeError> {
    let plain = TaskId::new(jid).ok().filter(|_| !jid.starts_with(ENCODED));
    let encoded = || TaskId::new(format!("{ENCODED}{}", URL_SAFE_NO_PAD.encode(jid)));
    plain.map_or_else(encoded, Ok).map_err(|_| {
        let text = "job id is too long: use up to 90 bytes, or 128 visible ASCII characters";
        GrapeError::Named(2_001, text.to_owned())
    })
}

/// The id of the job for a task.
pub(super) fn job_id(id: &TaskId) -> Cow<'_, str> {
    let decoded = id.as_str().strip_prefix(ENCODED).and_then(|encoded| {
        let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        String::from_utf8(bytes).ok()
    });
    decoded.map_or(Cow::Borrowed(id.as_str()), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_of_a_job_comes_back_as_it_was() {
        for jid in [
            "a",
            "order-42",
            "b64:",
            "b64:YQ",
            "a b",
            "Auftrag/42",
            "\u{8ba2}\u{5355}",
        ] {
            assert_eq!(job_id(&task_id(jid).unwrap()), jid);
        }
        let [longest, longer] = [90, 129].map(|length| "x".repeat(length));
        assert_eq!(job_id(&task_id(&longest).unwrap()), longest);
        assert!(task_id(&longer).is_err());
    }
}
