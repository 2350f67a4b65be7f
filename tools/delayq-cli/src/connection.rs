//! The store that a command works on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use delayq_plugin::store::{Durability, MAX_REMEMBERED, StoreOptions};
use delayq_plugin::{Config, Namespace, TaskSubmitService};

use crate::actor::read_name;
use crate::failure::Failure;
use crate::span::read_span;

/// The retention if the configuration sets none. A call with a shorter retention than the
/// application's would forget records that it protects; with a longer one nothing is forgotten
/// here.
const RETENTION: Duration = Duration::from_hours(7 * 24);

/// The store, and the form of the output.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store, such as sqlite:PATH or redis://HOST/; or DELAYQ_URL, or `url` in the
    /// configuration file. A password is better there than in the list of processes.
    #[arg(long, global = true, hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// The configuration file, instead of ~/.config/delayq.toml.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The namespace; or DELAYQ_NAMESPACE, or `namespace` in the configuration file.
    #[arg(long, global = true)]
    pub(crate) namespace: Option<String>,
    /// Time limit of one call to the store, such as 10s.
    #[arg(long, global = true, value_name = "SPAN", value_parser = read_span)]
    pub(crate) timeout: Option<Duration>,
    /// The actor for the log of actions; or DELAYQ_ACTOR, or the system's user.
    #[arg(long = "as", global = true, value_name = "NAME", value_parser = read_name)]
    pub(crate) actor: Option<String>,
    /// Print one JSON document; its times are milliseconds since the epoch.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show delayq's log: warnings; with -vv also information, with -vvv also debug lines.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// Opens another store in the same way. Never creates one.
pub(crate) async fn open_other(
    args: &StoreArgs,
    url: &str,
    namespace: Option<&str>,
) -> Result<TaskSubmitService, Failure> {
    let mut args = args.clone();
    args.url = Some(url.to_owned());
    if let Some(namespace) = namespace {
        args.namespace = Some(namespace.to_owned());
    }
    open(&args).await
}

/// Opens the store named by the arguments, the environment or the configuration file. Never creates
/// one.
pub(crate) async fn open(args: &StoreArgs) -> Result<TaskSubmitService, Failure> {
    let config = configuration(args)?;
    let url = args.url.as_deref().or(config.store_url());
    let url = url.ok_or_else(|| {
        let text = "no store is named: give --url, set DELAYQ_URL, or write `url` into \
                    ~/.config/delayq.toml (or the file of --config)";
        Failure::usage(text)
    })?;
    let mut options = config.store_options(StoreOptions {
        // An operator works on the store as it is: only a configuration may require more.
        durability: Durability::Memory,
        retention: RETENTION,
        remembered: MAX_REMEMBERED,
        ..StoreOptions::default()
    });
    if let Some(namespace) = &args.namespace {
        options.namespace = Namespace::new(namespace)?;
    }
    if let Some(timeout) = args.timeout {
        options.call_timeout = timeout;
    }
    let url = existing(url)?;
    Ok(TaskSubmitService::connect(&url, options).await?)
}

fn configuration(args: &StoreArgs) -> Result<Config, Failure> {
    let file = args.config.clone().or_else(default_file);
    let config = match file {
        Some(file) => Config::load(file)?,
        None => Config::from_env()?,
    };
    Ok(config)
}

/// `~/.config/delayq.toml`, if it exists.
fn default_file() -> Option<PathBuf> {
    let folder = match std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(&std::env::var_os("HOME")?).join(".config"),
    };
    Some(folder.join("delayq.toml")).filter(|file| file.is_file())
}

/// The URL of an existing store. Refuses a file that is missing or empty, whatever the URL says
/// about creating it.
fn existing(url: &str) -> Result<String, Failure> {
    if url.starts_with("memory:") {
        let text = "a memory store lives in the application's process: no other can look into it";
        return Err(Failure::NoStore(text.to_owned()));
    }
    let Some(place) = url.strip_prefix("sqlite:") else {
        return Ok(url.to_owned());
    };
    let (path, query) = place.split_once('?').unwrap_or((place, ""));
    let path = path.strip_prefix("//").unwrap_or(path);
    let size = std::fs::metadata(path).map(|file| file.len());
    let problem = match size {
        Ok(1..) => None,
        Ok(0) => Some(format!("the file {path:?} is empty")),
        Err(error) => Some(format!("the file {path:?} cannot be read: {error}")),
    };
    if let Some(problem) = problem.filter(|_| !path.is_empty()) {
        let text = format!(
            "{problem}; the path counts from the working directory. Check the URL, or start the \
             application first: this command makes no store"
        );
        return Err(Failure::NoStore(text));
    }
    let options: Vec<_> = query
        .split('&')
        .filter(|option| !option.is_empty() && *option != "create=true")
        .collect();
    let query = match options.as_slice() {
        [] => String::new(),
        options => format!("?{}", options.join("&")),
    };
    Ok(format!("sqlite:{path}{query}"))
}
