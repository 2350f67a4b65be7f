//! The limit of a token, as the administration sets it.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

use super::answer::{Refused, answer, bad, failed, refused};
use super::limit::Limit;
use super::state::Lmstfy;
use super::token_key::{TokenKey, split_token};

/// A call about the limit of a token.
#[derive(Clone, Debug)]
pub(super) struct LimitCall<'a> {
    front: &'a Lmstfy,
    key: TokenKey,
    /// The token as it was named.
    named: &'a str,
}

impl<'a> LimitCall<'a> {
    pub(super) fn new(front: &'a Lmstfy, namespace: &str, named: &'a str) -> Self {
        let (pool, token) = split_token(named);
        let key = TokenKey::new(pool, namespace, token);
        Self { front, key, named }
    }

    pub(super) async fn show(&self) -> Result<Response, Refused> {
        let refreshed = self.front.limits.refresh().await;
        refreshed.map_err(|error| failed(&error))?;
        match self.front.limits.get(&self.key) {
            Some(limit) => Ok(answer(StatusCode::OK, &limit)),
            None => Ok(answer(StatusCode::NOT_FOUND, &())),
        }
    }

    /// Sets the limit; `is_new`: only if there is none.
    pub(super) async fn set(&self, body: &[u8], is_new: bool) -> Result<Response, Refused> {
        let limit: Limit = serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))?;
        if limit.read == 0 && limit.write == 0 {
            let body = json!({ "limiter": limit });
            return Ok(answer(StatusCode::BAD_REQUEST, &body));
        }
        if limit.interval <= 0 {
            return Err(bad("interval should be > 0"));
        }
        if limit.read <= 0 && limit.write <= 0 {
            return Err(bad(
                "the read and write of limiter can't be <= 0 at the same time",
            ));
        }
        let known = self.front.limits.find(&self.key).await;
        let is_known = known.map_err(|error| failed(&error))?.is_some();
        if is_new && is_known {
            let text = format!("throttler token({}) has already exists", self.named);
            return Err(refused(StatusCode::CONFLICT, &text));
        }
        let kept = self.front.limits.put(&self.key, &limit).await;
        kept.map_err(|error| failed(&error))?;
        let status = if is_new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        Ok(answer(status, &json!({ "limiter": limit })))
    }

    pub(super) async fn delete(&self) -> Result<Response, Refused> {
        let removed = self.front.limits.remove(&self.key).await;
        removed.map_err(|error| failed(&error))?;
        Ok(answer(StatusCode::OK, &json!({"msg": "success"})))
    }
}

/// A limit as the list shows it.
#[derive(Serialize)]
struct Listed {
    namespace: String,
    token: String,
    limiter: Limit,
}

/// All limits.
pub(super) async fn all(front: &Lmstfy) -> Result<Response, Refused> {
    let refreshed = front.limits.refresh().await;
    refreshed.map_err(|error| failed(&error))?;
    let listed = front.limits.all(|_| true).into_iter();
    let listed = listed.map(|(key, limiter)| Listed {
        token: match key.pool.as_str() {
            "default" => key.token,
            pool => format!("{pool}:{}", key.token),
        },
        namespace: key.namespace,
        limiter,
    });
    Ok(answer(StatusCode::OK, &listed.collect::<Vec<_>>()))
}
