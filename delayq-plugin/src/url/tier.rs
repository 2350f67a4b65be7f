//! A second store, for tasks of the far future.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::StoreOptions;
use delayq_core::{Result, Store};
use delayq_tiered::{
    DEFAULT_HORIZON, Later, Opener, TierOptions, TieredStore, check_pair, mark_pair,
};
use tracing::warn;

use super::{StoreUrl, open_store, open_store_once, parse, refuse_missing_file};

/// A second store, where tasks of the far future wait: see the guide's page on the cold store.
///
/// ```no_run
/// use delayq_plugin::store::StoreOptions;
/// use delayq_plugin::{ColdStore, TaskSubmitService, hours};
///
/// # async fn f() -> Result<(), delayq_plugin::Error> {
/// let cold = ColdStore::new("postgres://db/shop").horizon(hours(6));
/// let store = cold.open("redis://cache", StoreOptions::default()).await?;
/// let tasks = TaskSubmitService::new(store);
/// # let _ = tasks;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ColdStore {
    url: String,
    horizon: Duration,
    moves_nothing: bool,
}

impl fmt::Debug for ColdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColdStore")
            .field("url", &StoreUrl(self.url.clone()))
            .field("horizon", &self.horizon)
            .field("moves_nothing", &self.moves_nothing)
            .finish()
    }
}

impl ColdStore {
    /// The store of `url`, with a horizon of one hour. It has to be another place than the hot
    /// store.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            horizon: DEFAULT_HORIZON,
            moves_nothing: false,
        }
    }

    /// Tasks that are due later than this wait here; at least five minutes.
    #[must_use]
    pub fn horizon(self, horizon: Duration) -> Self {
        Self { horizon, ..self }
    }

    /// Leaves it to other processes to move tasks to the hot store. For programs that only look, or
    /// whose retention is not that of the application.
    #[must_use]
    pub fn moving_nothing(self) -> Self {
        Self {
            moves_nothing: true,
            ..self
        }
    }

    /// Opens the store of `hot` with this one behind it, both with `options`; see
    /// [`open_store`](crate::open_store).
    ///
    /// # Errors
    /// Those of [`open_store`](crate::open_store) for either store, except that a cold store that
    /// is away is opened later. `InvalidInput` if both URLs name the same place or the cold store
    /// has tasks of another hot one, for a horizon below five minutes, and for a retention of two
    /// minutes or less.
    pub async fn open(&self, hot: &str, options: StoreOptions) -> Result<Arc<dyn Store>> {
        self.between(hot, options, true).await
    }

    /// The same, but a store that is still loading its data is `Unavailable`.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub async fn open_once(&self, hot: &str, options: StoreOptions) -> Result<Arc<dyn Store>> {
        self.between(hot, options, false).await
    }

    /// The same for a program that only sends or looks: no file is created.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and `InvalidInput` for a missing file.
    pub async fn open_existing(&self, hot: &str, options: StoreOptions) -> Result<Arc<dyn Store>> {
        refuse_missing_file(hot)?;
        refuse_missing_file(&self.url)?;
        self.open(hot, options).await
    }

    /// Refuses a cold store that cannot be kept behind the store of `hot`, as far as that can be
    /// told without opening them.
    ///
    /// # Errors
    /// `InvalidInput` for a URL of another form or that of `hot`, for a horizon below five minutes,
    /// and for a retention of two minutes or less.
    pub fn check(&self, hot: &str, options: &StoreOptions) -> Result<()> {
        parse(&self.url, options.clone())?;
        if self.url.trim_end() == hot.trim_end() {
            let reason = "it is that of the hot store: name another place";
            return Err(delayq_core::Error::invalid("URL of the cold store", reason));
        }
        self.tier(options).check()
    }

    /// Marks the store of `hot` and this one as a pair again, after an older copy took the place of
    /// one of both and [`open`](Self::open) refuses them. Whoever calls it says that they belong
    /// together. Answers false if they are marked so already. Stop every other process first.
    ///
    /// # Errors
    /// `InvalidInput` for two names of one place and for stores in each other's roles, and those of
    /// [`open_store`](crate::open_store).
    pub async fn mark_as_pair(&self, hot: &str, options: StoreOptions) -> Result<bool> {
        self.check(hot, &options)?;
        refuse_missing_file(hot)?;
        refuse_missing_file(&self.url)?;
        let near = open_store(hot, options.clone()).await?;
        let marked = match open_store(self.url.trim_end(), options).await {
            Ok(far) => {
                let marked = mark_pair(&*near, &*far).await;
                far.close().await;
                marked
            }
            Err(error) => Err(error),
        };
        near.close().await;
        marked
    }

    fn tier(&self, options: &StoreOptions) -> TierOptions {
        let tier = TierOptions::new(self.horizon, options);
        if self.moves_nothing {
            tier.moving_nothing()
        } else {
            tier
        }
    }

    async fn between(
        &self,
        hot: &str,
        options: StoreOptions,
        waits: bool,
    ) -> Result<Arc<dyn Store>> {
        self.check(hot, &options)?;
        let tier = self.tier(&options);
        let own = self.url.trim_end().to_owned();
        let (near, far) = if waits {
            let near = open_store(hot, options.clone()).await?;
            (near, open_store(&own, options.clone()).await)
        } else {
            let near = open_store_once(hot, options.clone()).await?;
            (near, open_store_once(&own, options.clone()).await)
        };
        let opened = match far {
            Ok(far) => {
                let opened = pair(&near, &far, tier, !self.moves_nothing).await;
                if opened.is_err() {
                    far.close().await;
                }
                opened
            }
            // Near tasks do without it. An operator's program does not.
            Err(delayq_core::Error::Unavailable { store, detail }) if !self.moves_nothing => {
                warn!(%store, %detail, "the cold store is away at the start");
                TieredStore::open_before_cold(near.clone(), later(store, own, &near, options), tier)
            }
            Err(error) => Err(error),
        };
        match opened {
            Ok(store) => Ok(store),
            Err(error) => {
                near.close().await;
                Err(error)
            }
        }
    }
}

/// Opens the tier over two stores that belong together.
async fn pair(
    near: &Arc<dyn Store>,
    far: &Arc<dyn Store>,
    tier: TierOptions,
    is_owner: bool,
) -> Result<Arc<TieredStore>> {
    check_pair(&**near, &**far, is_owner).await?;
    TieredStore::open(Arc::clone(near), Arc::clone(far), tier)
}

/// How the cold store is opened once it is back.
fn later(name: String, url: String, near: &Arc<dyn Store>, options: StoreOptions) -> Later {
    let (near, again) = (Arc::clone(near), options.clone());
    let opener: Opener = Box::new(move || {
        let (near, url, options) = (Arc::clone(&near), url.clone(), again.clone());
        Box::pin(async move {
            let far = open_store_once(&url, options).await?;
            match check_pair(&*near, &*far, true).await {
                Ok(()) => Ok(far),
                Err(error) => {
                    far.close().await;
                    Err(error)
                }
            }
        })
    });
    Later {
        name,
        options,
        opener,
    }
}

/// Opens the store of `url`, with a cold one behind it if there is one.
pub(crate) async fn open_store_with(
    url: &str,
    cold: Option<&ColdStore>,
    options: StoreOptions,
) -> Result<Arc<dyn Store>> {
    match cold {
        Some(cold) => cold.open(url, options).await,
        None => open_store(url, options).await,
    }
}
