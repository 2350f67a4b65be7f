//! Workers added and removed while the plugin runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delayq_core::{Error, TaskType, TypePattern};
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use super::shared::Shared;
use crate::error::StartError;
use crate::handler::Phase;
use crate::workers::BuiltWorker;

/// Begins to serve the types of a worker, or replaces the former worker of its pattern.
pub(super) async fn serve(shared: &Arc<Shared>, built: BuiltWorker) -> Result<(), StartError> {
    if *shared.phase.borrow() != Phase::Running {
        return Err(Error::Closed("plugin").into());
    }
    let pattern = shared.registry.add_later(built)?;
    drop(refit(shared, &pattern, Duration::MAX));
    let types = match &pattern {
        TypePattern::Exact(task_type) => {
            passing(shared.list(task_type).await)?;
            vec![task_type.clone()]
        }
        TypePattern::Prefix(_) => passing(shared.store.types().await)?.unwrap_or_default(),
    };
    for task_type in types.iter().filter(|one| pattern.matches(one)) {
        shared.serve(task_type)?;
    }
    // From now on the list of types is read from time to time if this is a pattern.
    shared.has_missed.store(true, Ordering::Relaxed);
    shared.news.notify_one();
    passing(shared.refresh().await.unwrap_or(Ok(())))?;
    Ok(())
}

/// Stops serving the types of the worker that was added for `pattern`. Returns true if there was
/// one. Waits for running attempts for up to `grace`.
pub(super) async fn unserve(shared: &Arc<Shared>, pattern: &TypePattern, grace: Duration) -> bool {
    if !shared.registry.remove_later(pattern) {
        return false;
    }
    for left in refit(shared, pattern, grace) {
        if let Err(error) = left.await {
            error!(%error, "cannot stop serving a type cleanly");
        }
    }
    true
}

/// Lets transient errors pass: maintenance tries again.
fn passing<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(error) if error.is_transient() => {
            warn!(%error, "a type is not served yet; trying again");
            Ok(None)
        }
        result => result.map(Some),
    }
}

/// Gives each served type of `pattern` its present workers. Handlers that cannot continue with them
/// end, and the type is then served anew if it has workers. Returns the ends of those handlers.
fn refit(shared: &Arc<Shared>, pattern: &TypePattern, grace: Duration) -> Vec<JoinHandle<()>> {
    let (mut changed, mut leaving) = (Vec::new(), Vec::new());
    for (task_type, served) in &mut shared.state().types {
        if !pattern.matches(task_type) {
            continue;
        }
        match shared.registry.of_type(task_type) {
            Some(workers) if served.context.workers().is_same(&workers) => {}
            Some(workers) if served.replace(&workers) => changed.push(task_type.clone()),
            _ => leaving.push(task_type.clone()),
        }
    }
    for task_type in changed {
        shared.mark_stale(&task_type);
    }
    let leaving = leaving.into_iter();
    leaving
        .filter_map(|task_type| leave(shared, task_type, grace))
        .collect()
}

/// Ends the handlers of a type. The returned task keeps running if its handle is dropped.
fn leave(shared: &Arc<Shared>, task_type: TaskType, grace: Duration) -> Option<JoinHandle<()>> {
    let stop_at = shared.elapsed().saturating_add(grace);
    let mut state = shared.state();
    let mut served = state.types.remove(&task_type)?;
    state.stale.remove(&task_type);
    state.leaving.insert(task_type.clone());
    drop(state);
    info!(%task_type, ?grace, "no longer served; waiting for its workers");
    let (ends, app) = (served.leave(stop_at), shared.app.clone());
    let shared = Arc::clone(shared);
    let end = async move {
        for ended in ends {
            if let Err(error) = ended.await {
                error!(%task_type, %error, "a handler ended abnormally");
            }
        }
        shared.settings.slots.forget(&task_type);
        shared.state().leaving.remove(&task_type);
        // Workers may have been added meanwhile.
        if let Err(error) = shared.serve(&task_type) {
            error!(%task_type, %error, "cannot serve the type again");
        }
    };
    Some(app.spawn(end))
}
