//! The store that a command works on.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use delayq_ops::quoted;
use delayq_plugin::history::HistoryStore;
use delayq_plugin::store::{Durability, MAX_MESSAGE_BYTES, MAX_REMEMBERED, StoreOptions};
use delayq_plugin::{ColdStore, Limits, Namespace, TaskSubmitService};

use crate::actor::read_name;
use crate::failure::Failure;
use crate::output::OutputFormat;
use crate::profile::ProfileFile;
use crate::span::read_span;
use crate::store_url::{has_secret, is_postgres};

/// The retention if the configuration sets none. A call with a shorter retention than the
/// application's would forget records that it protects; with a longer one nothing is forgotten
/// here.
const RETENTION: Duration = Duration::from_hours(7 * 24);

/// The store, and the form of the output.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct StoreArgs {
    /// The store, such as sqlite:PATH, redis://HOST/ or postgres://HOST/DATABASE; or DELAYQ_URL, or
    /// a profile
    #[arg(long, global = true, help_heading = GLOBAL, conflicts_with = "profile")]
    pub(crate) url: Option<String>,
    /// The cold store behind it, if the application has one; or DELAYQ_COLD_URL beside DELAYQ_URL,
    /// or `cold_url` in the profile or the file
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    pub(crate) cold_url: Option<String>,
    /// The horizon of the cold store, such as 1h; or DELAYQ_HORIZON. Default 1h.
    // An argument of a command that had this id would be taken for it.
    #[arg(id = "cold_horizon", long = "horizon", global = true, help_heading = GLOBAL,
        value_name = "SPAN", value_parser = read_span)]
    pub(crate) horizon: Option<Duration>,
    /// The profile to use; or DELAYQ_PROFILE, or the one of `delayq profile use`.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// The file with the profiles; or DELAYQ_CLI_CONFIG, or ~/.config/delayq/config.toml.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The namespace; or DELAYQ_NAMESPACE, or `namespace` in the profile or the file.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) namespace: Option<String>,
    /// Time limit of one call to the store, such as 10s.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "SPAN",
        value_parser = read_span)]
    pub(crate) timeout: Option<Duration>,
    /// The actor for the log of actions; or DELAYQ_ACTOR, or the system's user.
    #[arg(id = "as_actor", long = "as", global = true, help_heading = GLOBAL, value_name = "NAME",
        value_parser = read_name)]
    pub(crate) actor: Option<String>,
    /// The form of the output. Times in documents are milliseconds since the epoch.
    #[arg(short, long, global = true, help_heading = GLOBAL, value_name = "FORM", value_enum)]
    output: Option<OutputFormat>,
    /// The same as -o json.
    #[arg(long, global = true, help_heading = GLOBAL, conflicts_with = "output")]
    json: bool,
    /// Show delayq's log: warnings; with -vv also information, with -vvv also debug lines.
    #[arg(short, long, global = true, help_heading = GLOBAL, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The heading of the options that every command has.
const GLOBAL: &str = "Global options";

impl StoreArgs {
    /// The form of the output.
    pub(crate) fn format(&self) -> OutputFormat {
        if self.json {
            OutputFormat::Json
        } else {
            self.output.unwrap_or_default()
        }
    }

    /// Refuses options that exclude each other. The parser sees only those on the same side of the
    /// command.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.url.is_some() && self.profile.is_some() {
            let text = "--url and --profile both name a store: write one of them";
            return Err(Failure::usage(text));
        }
        if self.json && self.output.is_some_and(|form| form != OutputFormat::Json) {
            let text = "--json and --output both name a form of the output: write one of them";
            return Err(Failure::usage(text));
        }
        Ok(())
    }

    /// The command of a shell, with the options that named the store of this call. A URL with a
    /// secret is left out.
    pub(crate) fn on_this_store(&self, command: &str) -> String {
        let url = self.url.as_ref().filter(|url| !has_secret(url));
        let cold = self.cold_url.as_ref().filter(|url| !has_secret(url));
        let horizon = self.horizon.filter(|_| cold.is_some());
        let horizon = horizon.map(|span| format!("{}ms", span.as_millis()));
        let config = self.config.as_ref().map(|file| file.display().to_string());
        let options = [
            ("--config", config.as_ref()),
            ("--profile", self.profile.as_ref()),
            ("--url", url),
            ("--cold-url", cold),
            ("--horizon", horizon.as_ref()),
            ("--namespace", self.namespace.as_ref()),
        ];
        let mut text = "delayq".to_owned();
        for (option, value) in options {
            if let Some(value) = value {
                text += &format!(" {option} {}", quoted(value));
            }
        }
        text + command.strip_prefix("delayq").unwrap_or(command)
    }

    /// The file of the profiles. Warns if others can read a secret in it.
    pub(crate) fn profiles(&self) -> Result<ProfileFile, Failure> {
        let file = ProfileFile::read(self.config.as_deref())?;
        self.warn_of(&file);
        Ok(file)
    }

    /// The same for a change, which makes a file that is not there.
    pub(crate) fn profiles_or_new(&self) -> Result<ProfileFile, Failure> {
        let file = ProfileFile::read_or_new(self.config.as_deref())?;
        self.warn_of(&file);
        Ok(file)
    }

    /// A program reads a document on stderr, too: there is no room for a warning.
    fn warn_of(&self, file: &ProfileFile) {
        if !self.format().is_document() {
            file.warn_of_readers();
        }
    }
}

/// Where the URL of the store is taken from.
#[derive(Debug)]
pub(crate) enum Taken {
    /// `--url`.
    Option(String),
    /// A profile. One that an option names comes before the environment.
    Profile { name: String, is_option: bool },
    /// `DELAYQ_URL`, or `url` in the file.
    Config,
}

/// Finds out which of the sources counts: an option, the environment, the profile in use, the file.
pub(crate) fn taken(args: &StoreArgs, file: &ProfileFile) -> Result<Taken, Failure> {
    if let Some(url) = &args.url {
        return Ok(Taken::Option(url.clone()));
    }
    let profile = |name: &str, is_option| Taken::Profile {
        name: name.to_owned(),
        is_option,
    };
    if let Some(name) = &args.profile {
        return Ok(profile(name, true));
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (variable("DELAYQ_PROFILE"), variable("DELAYQ_URL")) {
        (Some(_), Some(_)) => {
            let text = "DELAYQ_PROFILE and DELAYQ_URL both name a store: unset one of them";
            Err(Failure::usage(text))
        }
        (Some(name), None) => Ok(profile(&name, false)),
        (None, Some(_)) => Ok(Taken::Config),
        (None, None) => Ok(match &file.current {
            Some(name) => profile(name, false),
            None => Taken::Config,
        }),
    }
}

/// Opens another store in the same way. Never creates one. `namespace` counts, whatever the
/// environment and the file say.
pub(crate) async fn open_other(
    args: &StoreArgs,
    url: &str,
    namespace: &Namespace,
) -> Result<TaskSubmitService, Failure> {
    let mut args = args.clone();
    (args.url, args.profile) = (Some(url.to_owned()), None);
    (args.cold_url, args.horizon) = (None, None);
    args.namespace = Some(namespace.to_string());
    open_with(&args, &ProfileFile::read(args.config.as_deref())?).await
}

/// Opens the store named by the arguments, the environment or the file. Never creates one.
pub(crate) async fn open(args: &StoreArgs) -> Result<TaskSubmitService, Failure> {
    open_with(args, &args.profiles()?).await
}

/// The URL of the store named by the arguments, the environment or the file, as it was written.
pub(crate) fn url(args: &StoreArgs) -> Result<String, Failure> {
    Ok(place(args, &args.profiles()?)?.0)
}

/// The namespace that the arguments, the environment or the file name.
pub(crate) fn namespace(args: &StoreArgs) -> Result<Namespace, Failure> {
    let file = args.profiles()?;
    match place(args, &file) {
        Ok((_, options)) => Ok(options.namespace),
        // The store need not be named.
        Err(_) => Ok(match &args.namespace {
            Some(namespace) => Namespace::new(namespace)?,
            None => {
                file.config()?
                    .store_options(StoreOptions::default())
                    .namespace
            }
        }),
    }
}

async fn open_with(args: &StoreArgs, file: &ProfileFile) -> Result<TaskSubmitService, Failure> {
    let (url, options) = place(args, file)?;
    let url = existing(&url)?;
    let cold = cold_store(args, file)?;
    let limits = Limits {
        // The application may allow less, and does so when it sends.
        max_message_bytes: MAX_MESSAGE_BYTES,
        ..Limits::default()
    };
    let timeout = options.call_timeout;
    let tasks = match cold {
        Some(cold) => TaskSubmitService::new(cold.open_existing(&url, options).await?),
        None => TaskSubmitService::connect(&url, options).await?,
    };
    let tasks = tasks.with_limits(limits);
    match history_url(args, file)? {
        Some(url) => {
            let namespace = tasks.store().namespace().cloned().unwrap_or_default();
            let history = HistoryStore::at(&url, namespace, timeout)?;
            Ok(tasks.with_history(Arc::new(history)))
        }
        None => Ok(tasks),
    }
}

/// The history of the store: that of where the store is named.
fn history_url(args: &StoreArgs, file: &ProfileFile) -> Result<Option<String>, Failure> {
    let taken = taken(args, file)?;
    let of_place = match &taken {
        Taken::Option(_) => None,
        Taken::Profile { name, .. } => file.profile(name)?.history.clone(),
        Taken::Config => file.config()?.history_url().map(str::to_owned),
    };
    Ok(of_place)
}

/// Says that the history of the configuration is not taken for another store, if that is so.
pub(crate) fn note_other_history(args: &StoreArgs) -> Result<(), Failure> {
    let file = args.profiles()?;
    let is_other = !matches!(taken(args, &file)?, Taken::Config);
    if is_other && file.config()?.history_url().is_some() && !args.format().is_document() {
        // If this fails, there is nobody to tell.
        let _ = writeln!(
            anstream::stderr(),
            "note: the history of the configuration belongs to the store there; --history names \
             one for this store"
        );
    }
    Ok(())
}

/// The cold store behind the store: that of the option, or of where the store is named.
fn cold_store(args: &StoreArgs, file: &ProfileFile) -> Result<Option<ColdStore>, Failure> {
    let config = file.config()?;
    let Some(url) = cold_url(args, file)? else {
        if args.horizon.is_some() {
            let text = "--horizon has no effect without a cold store: add --cold-url URL";
            return Err(Failure::usage(text));
        }
        return Ok(None);
    };
    // The instances move the tasks: this command remembers ended ones longer than they do.
    let cold = ColdStore::new(url).moving_nothing();
    let horizon = args.horizon.or(config.horizon());
    Ok(Some(match horizon {
        Some(horizon) => cold.horizon(horizon),
        None => cold,
    }))
}

/// The URL of the cold store, if there is one.
fn cold_url(args: &StoreArgs, file: &ProfileFile) -> Result<Option<String>, Failure> {
    let config = file.config()?;
    let of_place = match taken(args, file)? {
        Taken::Option(_) => None,
        Taken::Profile { name, .. } => file.profile(&name)?.cold_url.as_deref(),
        Taken::Config => config.cold_url(),
    };
    let named = args.cold_url.as_deref().or(of_place);
    if named.is_none() && config.cold_url().is_some() && !args.format().is_document() {
        // If this fails, there is nobody to tell.
        let _ = writeln!(
            anstream::stderr(),
            "note: the cold store of the configuration belongs to the store there; --cold-url \
             names one for this store"
        );
    }
    named.map(existing).transpose()
}

/// Two stores of which one may be an older copy.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) hot_url: String,
    pub(crate) cold_url: String,
    pub(crate) cold: ColdStore,
    pub(crate) options: StoreOptions,
}

/// The hot and the cold store that the arguments, the environment or the file name.
pub(crate) fn pair(args: &StoreArgs) -> Result<Pair, Failure> {
    let file = args.profiles()?;
    let (url, options) = place(args, &file)?;
    let missing = || Failure::usage("no cold store is named: add --cold-url URL");
    let cold_url = cold_url(args, &file)?.ok_or_else(missing)?;
    Ok(Pair {
        hot_url: existing(&url)?,
        cold: ColdStore::new(cold_url.clone()).moving_nothing(),
        cold_url,
        options,
    })
}

/// The URL of a store, and the options to open it with.
fn place(args: &StoreArgs, file: &ProfileFile) -> Result<(String, StoreOptions), Failure> {
    let config = file.config()?;
    let mut options = config.store_options(StoreOptions {
        // An operator works on the store as it is: only a configuration may require more.
        durability: Durability::Memory,
        retention: RETENTION,
        remembered: MAX_REMEMBERED,
        ..StoreOptions::default()
    });
    let url = match taken(args, file)? {
        Taken::Option(url) => url,
        Taken::Profile { name, is_option } => {
            let profile = file.profile(&name)?;
            let is_in_env = std::env::var_os("DELAYQ_NAMESPACE").is_some();
            if let Some(namespace) = profile
                .namespace
                .clone()
                .filter(|_| is_option || !is_in_env)
            {
                options.namespace = namespace;
            }
            file.url(&name, profile)?
        }
        Taken::Config => config.store_url().map(str::to_owned).ok_or_else(|| {
            let text = "no store is named: write --url URL, set DELAYQ_URL, or name one with \
                        `delayq profile add NAME URL`";
            Failure::usage(text)
        })?,
    };
    if let Some(namespace) = &args.namespace {
        options.namespace = Namespace::new(namespace)?;
    }
    if let Some(timeout) = args.timeout {
        options.call_timeout = timeout;
    }
    Ok((url.trim_end_matches(['\r', '\n']).to_owned(), options))
}

/// The URL of an existing store. Refuses a file that is missing or empty, whatever the URL says
/// about creating it, and makes no schema of a database.
fn existing(url: &str) -> Result<String, Failure> {
    if url.starts_with("memory:") {
        let text = "a memory store lives in the application's process: no other can look into it";
        return Err(Failure::NoStore(text.to_owned()));
    }
    if is_postgres(url) && !url.contains("migrate=") {
        let mark = if url.contains('?') { '&' } else { '?' };
        return Ok(format!("{url}{mark}migrate=never"));
    }
    let Some(place) = url.strip_prefix("sqlite:") else {
        return Ok(url.to_owned());
    };
    existing_file(url)?;
    let (path, query) = place.split_once('?').unwrap_or((place, ""));
    let path = path.strip_prefix("//").unwrap_or(path);
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

/// Refuses a URL of a file that is missing or empty.
pub(crate) fn existing_file(url: &str) -> Result<(), Failure> {
    let Some(place) = url.strip_prefix("sqlite:") else {
        return Ok(());
    };
    let (path, _) = place.split_once('?').unwrap_or((place, ""));
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_on_this_store_has_no_secret() {
        let of = |url: &str| StoreArgs {
            url: Some(url.to_owned()),
            namespace: Some("shop".to_owned()),
            ..StoreArgs::default()
        };
        let command = of("redis://u:p@h/").on_this_store("delayq resume mail");
        assert_eq!(command, "delayq --namespace shop resume mail");
        let command = of("redis://h/?db=1").on_this_store("delayq resume mail");
        let url = "'redis://h/?db=1'";
        assert_eq!(
            command,
            format!("delayq --url {url} --namespace shop resume mail")
        );
    }
}
