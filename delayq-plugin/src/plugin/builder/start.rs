//! Start of a plugin: from the builder's settings to running handlers.

use std::sync::{Arc, Mutex};

use delayq_core::memory::MemoryStore;
use delayq_core::store::StoreOptions;
use delayq_core::{Error, Namespace, Store};
use delayq_tiered::check_alone;
use tokio::runtime::Handle;
use tracing::{info, warn};

use super::DelayQueuePluginBuilder;
use super::sends_nothing::SendsNothing;
use super::worker_plan::Surroundings;
use crate::error::StartError;
use crate::events::run_listener;
use crate::handler_set::HandlerSet;
use crate::history::{
    HistoryPlan, HistoryRetention, HistoryStore, Shipping, TypeRetention, check_store,
};
use crate::plugin::{DelayQueuePlugin, SIGNAL_GRACE};
use crate::submit::TaskSubmitService;
use crate::telemetry::Telemetry;
use crate::url::{ColdStore, open_store_with};
use crate::workers::WorkerRegistry;

/// Starts the plugin; see the method of the builder.
pub(super) async fn start(
    mut builder: DelayQueuePluginBuilder,
) -> Result<DelayQueuePlugin, StartError> {
    let app = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
    let Prepared { service, registry } = open(&mut builder).await?.prepare(&builder).await?;
    let types = registry.describe();
    service
        .declared
        .set(registry.recurring(), builder.settings.clock.now());
    for listener in builder.listeners.0 {
        app.spawn(run_listener(listener, service.events()));
    }
    let registry = Arc::new(registry);
    let shipping = start_shipper(&service, &builder.history, &registry, &app);
    let handlers = HandlerSet::start(service.clone(), registry, builder.settings, app).await?;
    let store = service.store();
    let durability = store.durability().as_str();
    let namespace = store.namespace().map(Namespace::as_str);
    info!(store = store.name(), namespace, durability, instance = %handlers.instance_id(),
        %types, "delayq started");
    let (config, own_grace) = (builder.config, builder.grace.unwrap_or(SIGNAL_GRACE));
    let grace = Mutex::new(config.grace.unwrap_or(own_grace));
    Ok(DelayQueuePlugin {
        service,
        handlers,
        shipping,
        config,
        own_grace,
        grace,
    })
}

/// An open store, and the workers that were built.
pub(crate) struct Prepared {
    pub(crate) service: TaskSubmitService,
    pub(crate) registry: WorkerRegistry,
}

/// The store of a builder.
struct OpenedStore {
    service: TaskSubmitService,
    is_opened_here: bool,
}

/// Checks the builder's settings and opens its store.
async fn open(builder: &mut DelayQueuePluginBuilder) -> Result<OpenedStore, StartError> {
    check(builder)?;
    let is_opened_here = builder.store.is_none();
    let opened = if let Some(store) = builder.store.take() {
        store
    } else {
        let cold = cold_store(builder);
        let options = builder.options.clone();
        let opened = open_store_with(&builder.url.0, cold.as_ref(), options).await?;
        if cold.is_none() {
            refuse_cold(&opened).await?;
        }
        opened
    };
    let clock = Arc::clone(&builder.settings.clock);
    let telemetry = Telemetry::new(&clock).with_unserved(Arc::clone(&clock));
    let service = TaskSubmitService::new(opened);
    let service = service.with_limits(builder.limits).with_clock(clock);
    let mut service = service.with_telemetry(telemetry);
    if builder.has_metrics {
        service = service.with_metrics();
    }
    builder.settings.telemetry = service.telemetry.clone();
    let mut service = service.with_stack(builder.middleware.clone());
    if let Some(history) = open_history(builder, &service).await? {
        service = service.with_history(history);
    }
    // A service that the application added belongs to another store, and takes precedence.
    if builder.components.get::<TaskSubmitService>().is_err() {
        builder.components.insert(service.clone());
    }
    Ok(OpenedStore {
        service,
        is_opened_here,
    })
}

/// Refuses the cold store of others as a store of its own. Warns of a hot one that is opened
/// without its cold store.
async fn refuse_cold(store: &Arc<dyn Store>) -> Result<(), StartError> {
    match check_alone(&**store).await {
        Err(error @ Error::InvalidInput { .. }) => {
            store.close().await;
            return Err(error.into());
        }
        Ok(true) => warn!(
            store = store.name(),
            "the store has a cold store behind it, which this process does not name: it does not \
             see far tasks, and accepts their ids; add cold_url"
        ),
        // A store that cannot say so has none.
        Ok(false) | Err(_) => {}
    }
    Ok(())
}

/// The history, if one is asked for. Its database is opened later, and may be away.
async fn open_history(
    builder: &DelayQueuePluginBuilder,
    service: &TaskSubmitService,
) -> Result<Option<Arc<HistoryStore>>, StartError> {
    let Some(url) = &builder.history.url else {
        return Ok(None);
    };
    let store = service.store();
    let namespace = store.namespace().cloned().unwrap_or_default();
    let history = HistoryStore::at(url, namespace, builder.options.call_timeout)?;
    check_store(&**store).await?;
    Ok(Some(Arc::new(history)))
}

/// Begins to ship the records of ended tasks.
fn start_shipper(
    service: &TaskSubmitService,
    plan: &HistoryPlan,
    registry: &Arc<WorkerRegistry>,
    app: &Handle,
) -> Option<Shipping> {
    let retention = HistoryRetention::of_all(plan.retention);
    let registry = Arc::clone(registry);
    let of_type = TypeRetention(Box::new(move |task_type| {
        let workers = registry.of_type(task_type)?;
        workers.combined().history_retention
    }));
    let shipper = service.history()?.shipper(retention).with_types(of_type);
    Some(Shipping::start(shipper, app))
}

/// The store for tasks of the far future, if there is one.
fn cold_store(builder: &DelayQueuePluginBuilder) -> Option<ColdStore> {
    let cold = ColdStore::new(builder.cold.as_ref()?.0.as_str());
    Some(match builder.horizon {
        Some(horizon) => cold.horizon(horizon),
        None => cold,
    })
}

impl OpenedStore {
    /// Builds the workers. Nothing runs yet.
    async fn prepare(self, builder: &DelayQueuePluginBuilder) -> Result<Prepared, StartError> {
        let Self {
            service,
            is_opened_here,
        } = self;
        let around = Surroundings {
            components: &builder.components,
            middleware: &builder.middleware,
            slots: &builder.settings.slots,
            tasks: &service,
            config: &builder.config,
        };
        match builder.plan.registry(&around) {
            Ok(registry) => Ok(Prepared { service, registry }),
            Err(error) => {
                if is_opened_here {
                    service.store().close().await;
                }
                Err(error)
            }
        }
    }
}

/// The same for a [`WorkerSet`](crate::WorkerSet), which claims nothing. `component` makes one more
/// component of the store. Without a URL or a store there is none, and a send is refused.
pub(crate) async fn prepare_set<C: Send + Sync + 'static>(
    mut builder: DelayQueuePluginBuilder,
    component: fn(&Arc<dyn Store>) -> C,
) -> Result<Prepared, StartError> {
    let has_store = builder.store.is_some() || builder.opening.contains(&"url");
    if !has_store {
        let clock = Arc::clone(&builder.settings.clock);
        let nowhere = MemoryStore::new(clock, StoreOptions::default());
        builder.store = Some(Arc::new(nowhere));
        builder.middleware = builder.middleware.with(SendsNothing);
    }
    let opened = open(&mut builder).await?;
    if has_store {
        let component = component(opened.service.store());
        builder.components.insert(component);
    }
    opened.prepare(&builder).await
}

/// Refuses invalid settings before a store is opened.
fn check(builder: &mut DelayQueuePluginBuilder) -> Result<(), StartError> {
    if let Some(mistake) = builder.mistakes.first() {
        return Err(mistake);
    }
    if builder.store.is_some() && !builder.opening.is_empty() {
        let options = builder.opening.join(", ");
        return Err(StartError::OptionsOfStore { options });
    }
    if builder.horizon.is_some() && builder.cold.is_none() {
        let reason = "it has no effect without a cold store: add .cold_store(URL), or cold_url";
        return Err(delayq_core::Error::invalid("horizon", reason).into());
    }
    if builder.plan.is_empty() {
        return Err(StartError::NoWorkers);
    }
    Ok(())
}
