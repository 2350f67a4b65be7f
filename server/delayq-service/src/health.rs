//! Health of the server and its stores.

use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::Store;
use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::access::TokenBook;
use crate::problem::Problem;
use crate::space::Spaces;
use crate::stop::Stopping;

/// How long an answer of the stores is reused, so that probes add no load.
const FRESH: Duration = Duration::from_secs(1);
/// How long the stores may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The cached state of the stores.
#[derive(Debug)]
pub struct Health {
    spaces: Arc<Spaces>,
    own: Arc<dyn Store>,
    tokens: Arc<TokenBook>,
    stopping: Stopping,
    last: Mutex<Option<HealthReading>>,
}

#[derive(Clone, Debug)]
struct HealthReading {
    at: Instant,
    trouble: Option<String>,
}

impl Health {
    pub fn new(
        spaces: Arc<Spaces>,
        own: Arc<dyn Store>,
        tokens: Arc<TokenBook>,
        stopping: Stopping,
    ) -> Self {
        Self {
            spaces,
            own,
            tokens,
            stopping,
            last: Mutex::default(),
        }
    }

    /// Refuses with the reason while the server is stopping or a store does not answer.
    pub async fn ready(&self) -> Result<(), Problem> {
        if self.stopping.is_leaving() {
            return Err(Problem::not_ready("the server stops"));
        }
        let mut last = self.last.lock().await;
        let fresh = last.as_ref().filter(|last| last.at.elapsed() < FRESH);
        let trouble = if let Some(fresh) = fresh {
            fresh.trouble.clone()
        } else {
            let trouble = self.trouble().await;
            let at = Instant::now();
            *last = Some(HealthReading {
                at,
                trouble: trouble.clone(),
            });
            trouble
        };
        match trouble {
            Some(trouble) => Err(Problem::not_ready(trouble)),
            None => Ok(()),
        }
    }

    /// The error of the first store that fails its check, or has lost its tokens.
    async fn trouble(&self) -> Option<String> {
        if let Some(loss) = self.tokens.loss() {
            return Some(loss.to_owned());
        }
        let own = async {
            let checked = self.own.check().await;
            checked
                .err()
                .map(|error| format!("the store of the server: {error}"))
        };
        let names = self.spaces.names();
        let spaces = join_all(names.iter().map(async |name| {
            let checked: Result<(), Problem> = async {
                let space = self.spaces.of(name).await?;
                Ok(space.tasks.store().check().await?)
            }
            .await;
            checked
                .err()
                .map(|problem| format!("namespace {name}: {problem}"))
        }));
        let checks = async {
            let (own, spaces) = tokio::join!(own, spaces);
            own.or_else(|| spaces.into_iter().flatten().next())
        };
        match tokio::time::timeout(PATIENCE, checks).await {
            Ok(trouble) => trouble,
            Err(_) => Some(format!("a store took longer than {PATIENCE:?} to answer")),
        }
    }
}
