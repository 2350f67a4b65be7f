//! Recorded ends: those of the store that the namespace leaves come first.

use async_trait::async_trait;
use delayq_plugin::Result;
use delayq_plugin::store::{EndPosition, Ends, EndsStatus, WaitingEnd};

use super::home::Home;
use super::placed_store::PlacedStore;

/// A position under this server's name: the generation of its store, then the store's own.
fn outer(home: &Home, own: &EndPosition) -> EndPosition {
    EndPosition::new(format!("{}:{own}", home.generation))
}

/// The store's own position, if it is one of this store.
fn own(home: &Home, position: &EndPosition) -> Option<EndPosition> {
    let (generation, own) = position.as_str().split_once(':')?;
    (generation.parse() == Ok(home.generation)).then(|| EndPosition::new(own))
}

#[async_trait]
impl Ends for PlacedStore {
    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        let (view, mut ends) = (self.view()?, Vec::new());
        for home in view.homes() {
            let rest = limit.saturating_sub(ends.len());
            for end in home.store.ends(rest).await? {
                let position = outer(home, &end.position);
                ends.push(WaitingEnd { position, ..end });
            }
        }
        Ok(ends)
    }

    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        let (view, mut removed) = (self.view()?, 0);
        for home in view.homes() {
            let own: Vec<_> = positions.iter().filter_map(|at| own(home, at)).collect();
            if !own.is_empty() {
                removed += home.store.remove_ends(&own).await?;
            }
        }
        Ok(removed)
    }

    async fn ends_status(&self) -> Result<EndsStatus> {
        let (view, mut sum) = (self.view()?, EndsStatus::default());
        for home in view.homes() {
            let status = home.store.ends_status().await?;
            sum.waiting += status.waiting;
            sum.oldest = sum.oldest.into_iter().chain(status.oldest).min();
            sum.bytes += status.bytes;
            sum.limit += status.limit;
            sum.lost += status.lost;
        }
        Ok(sum)
    }
}
