//! The plugin of this process, made at the first call.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delayq_plugin::{DelayQueuePlugin, Error, Result, TaskSubmitService, seconds};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::job::span;
use crate::script::{Shared, options};

/// What `app` says; durations are texts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AppLine {
    patience: Option<String>,
    token: Option<String>,
    url: Option<String>,
    grace: Option<String>,
}

/// The plugin, and what its workers share.
#[derive(Debug)]
struct App {
    plugin: DelayQueuePlugin,
    shared: Arc<Shared>,
}

/// Makes the plugin once.
#[derive(Debug, Default)]
pub(crate) struct Host(Mutex<Option<App>>);

impl Host {
    /// Makes it as the line says.
    pub(crate) async fn make(&self, line: &Value) -> Result<()> {
        let line = AppLine::deserialize(line);
        let line = line.map_err(|error| Error::invalid("line", error.to_string()))?;
        *self.0.lock().await = Some(App::start(&line).await?);
        Ok(())
    }

    pub(crate) async fn tasks(&self) -> Result<TaskSubmitService> {
        self.with(|app| app.plugin.submit_service()).await
    }

    /// Serves a type with the worker of the scenarios.
    pub(crate) async fn work(&self, line: &Value) -> Result<()> {
        let task_type = line.get("type").and_then(Value::as_str).unwrap_or_default();
        let options = options(line)?;
        self.with(|_| ()).await?;
        let guard = self.0.lock().await;
        let Some(app) = guard.as_ref() else {
            return Ok(());
        };
        let script = app.shared.script();
        let served = app.plugin.serve(task_type, options, script).await;
        served.map_err(|error| Error::invalid("worker", error.to_string()))
    }

    /// Ends the workers gracefully.
    pub(crate) async fn stop(&self) {
        if let Some(app) = self.0.lock().await.as_ref() {
            app.shared.is_stopping.store(true, Ordering::SeqCst);
            app.plugin.shutdown(app.plugin.grace()).await;
        }
    }

    async fn with<T>(&self, look: impl FnOnce(&App) -> T) -> Result<T> {
        let mut app = self.0.lock().await;
        if app.is_none() {
            *app = Some(App::start(&AppLine::default()).await?);
        }
        let app = app
            .as_ref()
            .ok_or_else(|| Error::invalid("app", "it is not made"))?;
        Ok(look(app))
    }
}

impl App {
    async fn start(line: &AppLine) -> Result<Self> {
        let of_line = |text: &Option<String>, otherwise: Duration| {
            text.as_deref().map_or(Ok(otherwise), span)
        };
        let plugin = DelayQueuePlugin::builder()
            .url(store_url(line)?)
            .call_timeout(of_line(&line.patience, seconds(30))?)
            .grace(of_line(&line.grace, seconds(20))?)
            .workers_later()
            .start()
            .await
            .map_err(|error| Error::invalid("plugin", error.to_string()))?;
        let shared = Arc::new(Shared::new(plugin.submit_service()));
        Ok(Self { plugin, shared })
    }
}

/// `delayq://TOKEN@HOST:PORT/NAMESPACE`, from the address of a namespace over HTTP.
fn store_url(line: &AppLine) -> Result<String> {
    let given = |value: &Option<String>, name: &str| {
        let value = value.clone().or_else(|| std::env::var(name).ok());
        value.ok_or_else(|| Error::invalid("environment", format!("{name} is not set")))
    };
    let (http, token) = (
        given(&line.url, "DELAYQ_HTTP")?,
        given(&line.token, "DELAYQ_TOKEN")?,
    );
    let place = http.trim_start_matches("http://").replace("/v1/", "/");
    Ok(format!("delayq://{token}@{place}"))
}
