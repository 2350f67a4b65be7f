//! A namespace of the server, with all that it offers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use delayq_plugin::store::StoreOptions;
use delayq_plugin::{Namespace, TaskSubmitService, open_store};
use tokio::sync::{Mutex, OnceCell};

use crate::config::Config;
use crate::problem::Problem;

/// A namespace.
#[derive(Debug)]
pub(crate) struct Space {
    /// Its tasks.
    pub(crate) tasks: TaskSubmitService,
}

/// The namespaces of the server, each opened when it is first asked for.
#[derive(Debug)]
pub(crate) struct Spaces {
    config: Arc<Config>,
    /// The URL of the store of each declared namespace.
    urls: BTreeMap<Namespace, String>,
    open: Mutex<HashMap<Namespace, Arc<OnceCell<Arc<Space>>>>>,
}

impl Spaces {
    pub(crate) fn new(config: &Arc<Config>) -> Self {
        let pool = |name: &String| config.pools.get(name).unwrap_or(&config.store).clone();
        let declared = config.namespaces.iter();
        let mut urls: BTreeMap<_, _> = declared
            .filter_map(|(name, one)| {
                let url = one.pool.as_ref().map_or(config.store.clone(), pool);
                Some((Namespace::new(name).ok()?, url))
            })
            .collect();
        urls.entry(Namespace::default())
            .or_insert_with(|| config.store.clone());
        Self {
            config: Arc::clone(config),
            urls,
            open: Mutex::default(),
        }
    }

    /// The declared namespaces.
    pub(crate) fn names(&self) -> Vec<Namespace> {
        self.urls.keys().cloned().collect()
    }

    /// A declared namespace.
    pub(crate) async fn of(&self, namespace: &Namespace) -> Result<Arc<Space>, Problem> {
        let Some(url) = self.urls.get(namespace) else {
            let text = format!(
                "there is no namespace {namespace}: declare it as [namespaces.{namespace}] in the \
                 configuration"
            );
            return Err(Problem::not_found(text));
        };
        let cell = {
            let mut open = self.open.lock().await;
            Arc::clone(open.entry(namespace.clone()).or_default())
        };
        let space = cell.get_or_try_init(|| self.open(namespace, url)).await?;
        Ok(Arc::clone(space))
    }

    async fn open(&self, namespace: &Namespace, url: &str) -> Result<Arc<Space>, Problem> {
        let options = StoreOptions {
            namespace: namespace.clone(),
            ..self.config.store_options()
        };
        let store = open_store(url, options).await?;
        Ok(Arc::new(Space {
            tasks: TaskSubmitService::new(store),
        }))
    }

    /// Closes all stores.
    pub(crate) async fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock().await);
        for space in open.values().filter_map(|cell| cell.get()) {
            space.tasks.close().await;
        }
    }
}
