//! `profile list`, `profile add`, `profile use`, `profile remove`: stores by name.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use delayq_plugin::Namespace;
use serde_json::json;

use crate::answer::CommandResult;
use crate::connection::{StoreArgs, Taken, taken};
use crate::failure::Failure;
use crate::profile::{Profile, profiles_of, set_current};
use crate::table::{Table, column};
use crate::text::{STRONG, one_line, styled};

/// A command on profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the profiles, and mark the one in use.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq profile list",
        "\n  delayq profile list -o json",
    ))]
    List,
    /// Add a profile. The first one is in use at once.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq profile add shop sqlite:/srv/shop/tasks.sqlite",
        "\n  delayq profile add prod --url-env PROD_DELAYQ_URL --namespace orders --use",
        "\n  delayq profile add prod --url-file /run/secrets/delayq-url",
    ))]
    Add(AddArgs),
    /// Use a profile from now on.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq profile use prod",
    ))]
    Use(NameArgs),
    /// Remove a profile. The store is not touched.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq profile remove prod",
    ))]
    Remove(NameArgs),
}

/// A profile.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The name.
    name: String,
}

/// A new profile.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The name: letters, digits, `-`, `_` and `.`.
    #[arg(value_parser = read_name)]
    name: String,
    /// The store, such as sqlite:PATH or redis://HOST/. A URL with a password is better in a
    /// variable or a file.
    #[arg(value_name = "URL", required_unless_present_any = ["url_env", "url_file"],
        conflicts_with_all = ["url_env", "url_file"], value_parser = read_url)]
    store: Option<String>,
    /// The environment variable that holds the URL.
    #[arg(long, value_name = "VARIABLE", conflicts_with = "url_file")]
    url_env: Option<String>,
    /// The file that holds the URL, such as a mounted secret.
    #[arg(long, value_name = "FILE")]
    url_file: Option<PathBuf>,
    /// The URL of its history database.
    #[arg(long, value_name = "URL")]
    history: Option<String>,
    /// Use it from now on.
    #[arg(long = "use")]
    is_used: bool,
}

/// Parses the name of a profile.
fn read_name(text: &str) -> Result<String, String> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if text.is_empty() || !text.chars().all(is_of_name) {
        return Err("a name has letters, digits, -, _ and . only".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses the URL of a store, by its form.
fn read_url(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.starts_with("http://") || text.starts_with("https://") {
        let server = "a server is written delayq://TOKEN@HOST:PORT/NAMESPACE, with TLS delayqs://";
        return Err(server.to_owned());
    }
    if !text.contains(':') {
        return Err(format!(
            "write sqlite:{text} for a file, or a URL such as redis://HOST/"
        ));
    }
    Ok(text.to_owned())
}

/// Runs the command.
pub(crate) fn run(command: &ProfileCommand, store: &StoreArgs) -> Result<CommandResult, Failure> {
    match command {
        ProfileCommand::List => list(store),
        ProfileCommand::Add(args) => add(args, store),
        ProfileCommand::Use(args) => change(args, store, true),
        ProfileCommand::Remove(args) => change(args, store, false),
    }
}

fn list(store: &StoreArgs) -> Result<CommandResult, Failure> {
    let file = store.profiles()?;
    let used = taken(store, &file)?;
    let used = match &used {
        Taken::Profile { name, .. } => Some(name.as_str()),
        _ => None,
    };
    let mut table = Table::new(&[
        column("NAME"),
        column("IN USE"),
        column("NAMESPACE"),
        column("URL"),
        column("COLD STORE"),
    ]);
    let mut document = Vec::new();
    for (name, profile) in &file.profiles {
        let namespace = profile.namespace.as_ref().map(ToString::to_string);
        let is_used = used == Some(name.as_str());
        let place = one_line(&profile.place());
        let cold = profile.cold_place().map(|cold| one_line(&cold));
        document.push(json!({
            "name": name, "url": place, "cold_url": cold, "namespace": namespace,
            "is_in_use": is_used,
        }));
        let mark = if is_used { "yes" } else { "" };
        table.row([
            styled(STRONG, name),
            mark.to_owned(),
            namespace.unwrap_or_default(),
            place,
            cold.unwrap_or_default(),
        ]);
    }
    if file.profiles.is_empty() {
        let text = "no profiles: `delayq profile add NAME URL` adds one";
        return CommandResult::new(text, document);
    }
    CommandResult::new(table, document)
}

fn add(args: &AddArgs, store: &StoreArgs) -> Result<CommandResult, Failure> {
    let (file, name) = (store.profiles_or_new()?, &args.name);
    if file.profiles.contains_key(name) {
        let text = format!("profile {name} is there already: remove it first, or use another name");
        return Err(Failure::refused(text));
    }
    let namespace = store.namespace.as_deref().map(Namespace::new).transpose()?;
    // What is typed counts from the working directory, what stands in the file from its folder.
    let url_file = args.url_file.as_deref().map(std::path::absolute);
    let profile = Profile {
        url: args.store.clone(),
        url_env: args.url_env.clone(),
        url_file: url_file.transpose()?,
        cold_url: store.cold_url.clone(),
        history: args.history.clone(),
        namespace,
    };
    profile.check().map_err(Failure::Usage)?;
    let is_used = args.is_used || (file.profiles.is_empty() && file.current.is_none());
    file.change(|document| {
        profiles_of(document)?.insert(name, toml_edit::Item::Table(profile.table()));
        if is_used {
            set_current(document, Some(name));
        }
        Ok(())
    })?;
    let used = if is_used { ", and is in use" } else { "" };
    let text = format!("profile {name} is added{used}");
    CommandResult::new(text, json!({"name": name, "is_in_use": is_used}))
}

/// Uses or removes a profile.
fn change(args: &NameArgs, store: &StoreArgs, is_used: bool) -> Result<CommandResult, Failure> {
    let (file, name) = (store.profiles()?, &args.name);
    file.profile(name)?;
    let was_used = file.current.as_deref() == Some(name);
    file.change(|document| {
        if is_used {
            set_current(document, Some(name));
            return Ok(());
        }
        profiles_of(document)?.remove(name);
        if was_used {
            set_current(document, None);
        }
        Ok(())
    })?;
    let what = if is_used { "is in use" } else { "is removed" };
    let mut text = format!("profile {name} {what}");
    if is_used && std::env::var_os("DELAYQ_URL").is_some() {
        text += "; DELAYQ_URL is set and comes first: unset it";
    }
    CommandResult::new(text, json!({"name": name, "is_in_use": is_used}))
}
