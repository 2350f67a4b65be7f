//! Tests of the tokens.

use std::sync::atomic::{AtomicBool, Ordering};

use delayq_core::store::Layer;
use delayq_plugin::store::MemoryStore;

use super::*;

const DAY: Duration = Duration::from_hours(24);

#[test]
fn a_token_is_ending_in_its_last_week_if_it_was_made_for_longer_than_a_month() {
    let of = |days: Option<i64>, passed: i64| {
        let expires_at = days.map(|days| days * DAY_MS);
        let token = serde_json::json!({"v": 1, "id": "a", "name": "a", "scopes": ["read"],
            "namespace": "*", "types": [], "created_at": 0, "expires_at": expires_at, "hash": ""});
        state(&serde_json::from_value(token).unwrap(), passed * DAY_MS)
    };
    assert_eq!(of(None, 5_000), VALID);
    assert_eq!(of(Some(90), 82), VALID);
    assert_eq!(of(Some(90), 84), ENDING);
    assert_eq!(of(Some(90), 90), ENDED);
    assert_eq!(of(Some(7), 3), VALID, "made for a week");
}

/// A store whose next write comes after somebody else has revoked the token or given it a new
/// secret.
#[derive(Debug)]
struct Overtaken {
    inner: Arc<dyn Store>,
    is_next: AtomicBool,
    revokes: bool,
}

impl Layer for Overtaken {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        if self.is_next.swap(false, Ordering::Relaxed) {
            let other = book(Arc::clone(&self.inner)).await;
            if self.revokes {
                assert!(other.revoke(name).await?);
            } else {
                other.rotate(name, Duration::ZERO).await?.unwrap();
            }
        }
        self.inner
            .write_document(folder, name, body, expected)
            .await
    }
}

async fn book(store: Arc<dyn Store>) -> Arc<TokenBook> {
    let clock = Arc::new(delayq_plugin::SystemClock);
    TokenBook::open(store, clock).await.unwrap()
}

fn reader() -> NewToken {
    serde_json::from_value::<Token>(serde_json::json!({"v": 1, "id": "a", "name": "a",
        "scopes": ["read"], "namespace": "*", "types": [], "created_at": 0, "hash": ""}))
    .map(|token| NewToken::of(&token))
    .unwrap()
}

/// A token, and a book on which somebody else is faster with the next change.
async fn overtaken(revokes: bool) -> (Arc<TokenBook>, String, String) {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (token, text) = book(Arc::clone(&inner))
        .await
        .create(reader())
        .await
        .unwrap();
    let is_next = AtomicBool::new(true);
    let store = Arc::new(Overtaken {
        inner,
        is_next,
        revokes,
    });
    (book(store).await, token.id, text)
}

#[tokio::test]
async fn a_change_does_not_bring_back_a_token_that_is_revoked_meanwhile() {
    let (tokens, id, text) = overtaken(true).await;
    assert!(!tokens.change(&id, reader(), None).await.unwrap());
    assert!(tokens.admit(&text).is_none());
    let (tokens, id, text) = overtaken(true).await;
    assert!(tokens.rotate(&id, DAY).await.unwrap().is_none());
    assert!(tokens.admit(&text).is_none());
}

#[tokio::test]
async fn a_change_keeps_the_secret_that_somebody_else_gives_meanwhile() {
    let (tokens, id, text) = overtaken(false).await;
    let before = tokens.get(&id).unwrap().hash.clone();
    assert!(tokens.change(&id, reader(), None).await.unwrap());
    assert_ne!(tokens.get(&id).unwrap().hash, before);
    assert!(tokens.admit(&text).is_none(), "it was rotated");
    let (tokens, id, _) = overtaken(false).await;
    let (_, newest) = tokens.rotate(&id, DAY).await.unwrap().unwrap();
    assert!(tokens.admit(&newest).is_some());
}
