//! The file of the command line: the stores that it knows by name.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use delayq_ops::nearest;
use delayq_plugin::{Config, Namespace};
use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, Item, Table as TomlTable, TableLike, value};

use crate::failure::Failure;
use crate::store_url::{has_secret, shown};

/// The key of the profile in use.
const CURRENT: &str = "profile";
/// The key of the profiles.
const PROFILES: &str = "profiles";

/// A store by its name. Exactly one of the three places of its URL is set.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// The URL itself.
    pub(crate) url: Option<String>,
    /// The environment variable that holds the URL.
    pub(crate) url_env: Option<String>,
    /// The file that holds the URL; a relative path counts from the folder of the profiles.
    pub(crate) url_file: Option<PathBuf>,
    /// The URL of the cold store behind it.
    pub(crate) cold_url: Option<String>,
    /// The URL of its history database.
    pub(crate) history: Option<String>,
    /// The namespace; default: that of the environment or the file.
    pub(crate) namespace: Option<Namespace>,
}

/// The file, as it was read.
#[derive(Debug, Default)]
pub(crate) struct ProfileFile {
    path: Option<PathBuf>,
    text: String,
    /// Everything but the profiles: the configuration of an application.
    rest: toml::Table,
    /// The profile in use.
    pub(crate) current: Option<String>,
    pub(crate) profiles: BTreeMap<String, Profile>,
}

impl ProfileFile {
    /// Reads the file of `--config` or `DELAYQ_CLI_CONFIG`, or the one in the user's folder if
    /// there is one.
    pub(crate) fn read(given: Option<&Path>) -> Result<Self, Failure> {
        let named = named_path(given);
        let is_named = named.is_some();
        let Some(path) = named.or_else(default_path) else {
            return Ok(Self::default());
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && !is_named => String::new(),
            Err(error) => {
                let text = format!("the file {}: {error}", path.display());
                return Err(Failure::usage(text));
            }
        };
        Self::of(path, text)
    }

    /// The same for a change, which makes a file that is not there.
    pub(crate) fn read_or_new(given: Option<&Path>) -> Result<Self, Failure> {
        match named_path(given) {
            Some(path) if !path.exists() => Self::of(path, String::new()),
            _ => Self::read(given),
        }
    }

    fn of(path: PathBuf, text: String) -> Result<Self, Failure> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("the file {}: {error}", path.display()))
        };
        let mut rest: toml::Table = toml::from_str(&text)
            .map_err(|error| wrong_text(&path, &text, error.message(), error.span()))?;
        let current = match rest.remove(CURRENT) {
            None => None,
            Some(toml::Value::String(name)) => Some(name),
            Some(_) => return Err(wrong(&"`profile` is the name of a profile")),
        };
        let profiles = rest.remove(PROFILES).unwrap_or(toml::Table::new().into());
        let toml::Value::Table(tables) = profiles else {
            return Err(wrong(&"`profiles` is a table: write [profiles.NAME]"));
        };
        let mut profiles = BTreeMap::new();
        for (name, table) in tables {
            let profile = Profile::of(table);
            let profile = profile.map_err(|reason| wrong(&format!("profile {name}: {reason}")))?;
            profiles.insert(name, profile);
        }
        Ok(Self {
            path: Some(path),
            text,
            rest,
            current,
            profiles,
        })
    }

    /// The part of the file that an application has, too, with the environment applied over it.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let name = self
            .path
            .as_deref()
            .map_or("the environment".to_owned(), |path| {
                path.display().to_string()
            });
        // As text it is read with the numbers of its lines.
        let has_profiles = self.current.is_some() || !self.profiles.is_empty();
        match &self.path {
            Some(path) if !has_profiles && !self.text.is_empty() => Ok(Config::load(path)?),
            _ => Ok(Config::from_section(&name, self.rest.clone())?.with_env()?),
        }
    }

    /// The profile of this name.
    pub(crate) fn profile(&self, name: &str) -> Result<&Profile, Failure> {
        self.profiles.get(name).ok_or_else(|| {
            let near = nearest(name, self.profiles.keys().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean {near}?"),
                None => "`delayq profile list` lists those that there are".to_owned(),
            };
            Failure::usage(format!("there is no profile {name}: {hint}"))
        })
    }

    /// The URL of a profile.
    pub(crate) fn url(&self, name: &str, profile: &Profile) -> Result<String, Failure> {
        let wrong = |reason: String| Failure::usage(format!("profile {name}: {reason}"));
        if let Some(variable) = &profile.url_env {
            let url = std::env::var(variable);
            return url.map_err(|error| wrong(format!("the variable {variable}: {error}")));
        }
        if let Some(file) = &profile.url_file {
            let folder = self.path.as_deref().and_then(Path::parent);
            let file = folder.unwrap_or(Path::new("")).join(file);
            let text = fs::read_to_string(&file);
            let text = text.map_err(|error| wrong(format!("the file {}: {error}", file.display())));
            return Ok(text?.trim().to_owned());
        }
        Ok(profile.url.clone().unwrap_or_default())
    }

    /// Writes the file with a change, and leaves the rest of it as it is, comments included. Only
    /// its owner can read it.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut DocumentMut) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let path = self.path.as_deref().ok_or_else(|| {
            Failure::usage("no folder for the file is known: write --config FILE, or set HOME")
        })?;
        let wrong = |error: toml_edit::TomlError| {
            wrong_text(path, &self.text, error.message(), error.span())
        };
        let mut document: DocumentMut = self.text.parse().map_err(wrong)?;
        change(&mut document)?;
        // A link to the file stays a link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut part = path.clone().into_os_string();
        part.push(".part");
        // One that was left by a call that was cut off may be open for others, or be a link.
        match fs::remove_file(&part) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&part)?;
        file.write_all(document.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, &path)?;
        Ok(())
    }

    /// Warns if the file holds a secret that others can read.
    #[cfg(unix)]
    pub(crate) fn warn_of_readers(&self) {
        use std::os::unix::fs::PermissionsExt;
        let Some(path) = &self.path else {
            return;
        };
        let own = self.rest.get("url").and_then(toml::Value::as_str);
        let profiles = self.profiles.values();
        let urls = profiles.flat_map(|one| [&one.url, &one.cold_url, &one.history]);
        let urls = urls.flatten().map(String::as_str);
        let has_secret = urls.chain(own).any(has_secret);
        let mode = fs::metadata(path).map_or(0, |file| file.permissions().mode());
        if has_secret && mode & 0o077 != 0 {
            let place = path.display();
            let text = format!("{place} holds a secret and others can read it: chmod 600 {place}");
            // If this fails, there is nobody to warn.
            let _ = writeln!(
                anstream::stderr(),
                "warning: {}",
                crate::text::one_line(&text)
            );
        }
    }

    #[cfg(not(unix))]
    #[allow(clippy::unused_self, reason = "the system has no such modes")]
    pub(crate) fn warn_of_readers(&self) {}
}

impl Profile {
    /// Reads a profile. An error shows no value that may be a URL.
    fn of(table: toml::Value) -> Result<Self, String> {
        if !table.is_table() {
            return Err("write a table with one of url, url_env and url_file".to_owned());
        }
        let profile: Self = table
            .try_into()
            .map_err(|error: toml::de::Error| error.message().to_owned())?;
        profile.check()?;
        Ok(profile)
    }

    /// Refuses a profile without a URL, with several, and with one that is of no store.
    pub(crate) fn check(&self) -> Result<(), String> {
        let places = [
            self.url.is_some(),
            self.url_env.is_some(),
            self.url_file.is_some(),
        ];
        if places.into_iter().filter(|is_set| *is_set).count() != 1 {
            return Err("write one of url, url_env and url_file".to_owned());
        }
        Ok(())
    }

    /// Where its URL comes from, without secrets.
    pub(crate) fn place(&self) -> String {
        match (&self.url, &self.url_env, &self.url_file) {
            (Some(url), ..) => shown(url),
            (_, Some(variable), _) => format!("${variable}"),
            (.., Some(file)) => format!("@{}", file.display()),
            _ => String::new(),
        }
    }

    /// The cold store behind it, without a secret.
    pub(crate) fn cold_place(&self) -> Option<String> {
        self.cold_url.as_deref().map(shown)
    }

    /// Its table in the file.
    pub(crate) fn table(&self) -> TomlTable {
        let mut table = TomlTable::new();
        let file = self
            .url_file
            .as_ref()
            .map(|file| file.display().to_string());
        let namespace = self.namespace.as_ref().map(ToString::to_string);
        for (key, text) in [
            ("url", self.url.clone()),
            ("url_env", self.url_env.clone()),
            ("url_file", file),
            ("cold_url", self.cold_url.clone()),
            ("history", self.history.clone()),
            ("namespace", namespace),
        ] {
            if let Some(text) = text {
                table.insert(key, value(text));
            }
        }
        table
    }
}

/// The profiles of a document, for a change.
pub(crate) fn profiles_of(document: &mut DocumentMut) -> Result<&mut dyn TableLike, Failure> {
    let item = document.entry(PROFILES).or_insert_with(|| {
        let mut table = TomlTable::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let profiles = item.as_table_like_mut();
    profiles.ok_or_else(|| Failure::usage("`profiles` is a table: write [profiles.NAME]"))
}

/// Writes the name of the profile in use, or takes it out.
pub(crate) fn set_current(document: &mut DocumentMut, name: Option<&str>) {
    match name {
        Some(name) => {
            document.insert(CURRENT, value(name));
        }
        None => {
            document.remove(CURRENT);
        }
    }
}

/// The file of `--config` or `DELAYQ_CLI_CONFIG`.
fn named_path(given: Option<&Path>) -> Option<PathBuf> {
    let variable = std::env::var_os("DELAYQ_CLI_CONFIG").filter(|path| !path.is_empty());
    given.map(Path::to_owned).or(variable.map(PathBuf::from))
}

/// A mistake in the text of a file. Quotes no line, as a URL may hold a password.
fn wrong_text(path: &Path, text: &str, message: &str, span: Option<Range<usize>>) -> Failure {
    let file = path.display();
    let line = span.map(|span| {
        let before = text.bytes().take(span.start);
        before.filter(|byte| *byte == b'\n').count() + 1
    });
    Failure::usage(match line {
        Some(line) => format!("the file {file}, line {line}: {message}"),
        None => format!("the file {file}: {message}"),
    })
}

/// `~/.config/delayq/config.toml`; or `~/.config/delayq.toml`, where that alone is there.
fn default_path() -> Option<PathBuf> {
    let folder = match std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(&std::env::var_os("HOME")?).join(".config"),
    };
    let (file, old) = (
        folder.join("delayq/config.toml"),
        folder.join("delayq.toml"),
    );
    Some(if old.is_file() && !file.is_file() {
        old
    } else {
        file
    })
}

/// Makes a new file readable and writable only for its owner.
#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

/// On other systems the permissions of the folder decide.
#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}
