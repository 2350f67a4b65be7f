//! The options of beanstalkd.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use clap::ArgAction;
use delayq_core::job::MAX_MESSAGE_BYTES;
use delayq_fronts::beanstalk::VERSION;
use serde_json::{Map, Value};

/// The largest job that a store takes, in bytes; beanstalkd itself allows 1 GiB.
const MAX_JOB_BYTES: u64 = MAX_MESSAGE_BYTES as u64;

/// The options of beanstalkd.
#[derive(Debug, clap::Args)]
#[command(display_name = "beanstalkd", version = VERSION, disable_version_flag = true)]
pub(crate) struct BeanstalkdArgs {
    /// The address to listen on: an address or name of this host, or unix:PATH for a Unix socket.
    #[arg(short = 'l', long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = place)]
    address: ListenPlace,
    /// The port to listen on.
    #[arg(short = 'p', long, default_value_t = 11_300)]
    port: u16,
    /// The folder that holds the jobs.
    #[arg(short = 'b', long, value_name = "DIR", conflicts_with = "store")]
    data: Option<PathBuf>,
    /// Sync to disk at most once in this many milliseconds. Here each answer waits for the disk,
    /// and clients that wait share a sync.
    #[arg(short = 'f', value_name = "MS")]
    sync_ms: Option<u64>,
    /// Never wait for the disk: a power loss may lose the last seconds.
    #[arg(short = 'F', conflicts_with = "sync_ms")]
    no_sync: bool,
    /// The largest job, in bytes.
    #[arg(short = 'z', long, value_name = "BYTES", default_value_t = 65_535)]
    max_job_bytes: u64,
    /// The size of a journal file, in bytes. Without effect, because there is no journal.
    #[arg(short = 's', value_name = "BYTES")]
    journal_bytes: Option<u64>,
    /// Without effect, as in beanstalkd.
    #[arg(short = 'c')]
    compact: bool,
    /// Without effect, as in beanstalkd.
    #[arg(short = 'n')]
    no_compact: bool,
    /// Refused: start the server as that user.
    #[arg(short = 'u', value_name = "USER", value_parser = no_user)]
    user: Option<String>,
    /// Log more. Repeat it to log still more.
    #[arg(short = 'V', action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print the version.
    #[arg(short = 'v', action = ArgAction::Version)]
    version: Option<bool>,
}

/// The place to listen on.
#[derive(Clone, Debug)]
enum ListenPlace {
    Host(IpAddr),
    Socket(PathBuf),
}

fn place(text: &str) -> Result<ListenPlace, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path {
            "" => Err("write unix:PATH".to_owned()),
            path if cfg!(unix) => Ok(ListenPlace::Socket(path.into())),
            _ => Err("this system has no Unix sockets".to_owned()),
        };
    }
    let found = (text, 0).to_socket_addrs();
    let found = found.map_err(|error| format!("{error}: use an address, a name or unix:PATH"))?;
    let address = found.map(|address| address.ip()).next();
    address
        .map(ListenPlace::Host)
        .ok_or_else(|| "the name has no address".to_owned())
}

fn no_user(name: &str) -> Result<String, String> {
    Err(format!(
        "the process stays the user that it was started as: start it as {name}, such as with \
         User={name} of systemd or `runuser -u {name} --`"
    ))
}

impl BeanstalkdArgs {
    /// Adds the options to the configuration.
    pub(super) fn add_to(&self, flags: &mut Map<String, Value>) {
        let (listen, socket) = match &self.address {
            ListenPlace::Host(address) => (Some(SocketAddr::from((*address, self.port))), None),
            ListenPlace::Socket(path) => (None, Some(path)),
        };
        let beanstalk = serde_json::json!({
            "listen": listen,
            "socket": socket,
            "max_job_bytes": self.max_job_bytes.min(MAX_JOB_BYTES),
        });
        flags.insert("beanstalk".to_owned(), beanstalk);
        if let Some(data) = &self.data {
            let file = data.join("beanstalk.sqlite");
            let sync = if self.no_sync { "?sync=normal" } else { "" };
            let url = format!("sqlite:{}{sync}", file.display());
            flags.insert("store".to_owned(), url.into());
        } else if !flags.contains_key("store") {
            flags.insert("store".to_owned(), "memory:".into());
            flags.insert("durability".to_owned(), "memory".into());
            return;
        }
        if self.sync_ms.is_some() {
            flags.insert("durability".to_owned(), "disk".into());
        }
    }

    /// The folder that holds the jobs.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// Remarks on options that do less than their names say.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let most = format!("-z: the maximum job size is {MAX_JOB_BYTES}");
        let sync = "-f: each answer waits for the disk, which is the least that is lost".to_owned();
        let journal = "-s: there is no journal, and its files have no size".to_owned();
        let compact = "-c and -n: there is no journal to compact".to_owned();
        let said = [
            (self.max_job_bytes > MAX_JOB_BYTES, most),
            (self.sync_ms.is_some_and(|ms| ms > 0), sync),
            (self.journal_bytes.is_some(), journal),
            (self.compact || self.no_compact, compact),
        ];
        let said = said.into_iter().filter(|(applies, _)| *applies);
        said.map(|(_, remark)| remark).collect()
    }
}
