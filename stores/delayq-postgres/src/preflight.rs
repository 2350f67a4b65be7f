//! The check at the start: settings of the server and the role that a promise depends on, each with
//! the line to change.

use delayq_core::store::Durability;
use delayq_core::{Error, Result};
use tracing::warn;

use crate::connection::{Connections, Session};

/// The oldest server: 14 has what the schema uses.
const OLDEST: i32 = 140_000;

const SETTINGS: &str = "SELECT current_setting('server_version_num')::int, \
    current_setting('server_version'), current_setting('default_transaction_isolation'), \
    current_setting('fsync'), current_setting('full_page_writes'), \
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), \
    current_setting('transaction_read_only'), pg_is_in_recovery(), \
    current_setting('server_encoding'), current_user::text, current_setting('statement_timeout')";

/// What the server says of itself.
#[derive(Clone, Debug)]
struct Settings {
    number: i32,
    version: String,
    isolation: String,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    standbys: String,
    read_only: String,
    is_standby: bool,
    encoding: String,
    role: String,
}

/// Reads the settings. Returns the class of an acknowledgement.
///
/// # Errors
/// `Misconfigured` with the line to change, and `ReadOnly`.
pub(crate) async fn check(connections: &Connections, wanted: Durability) -> Result<Durability> {
    let call = connections.call(|session: &mut Session| {
        Box::pin(async move {
            let rows = session.ask(SETTINGS, &[]).await?;
            let Some(row) = rows.first() else {
                let error = Error::unavailable("the server", "it does not tell its settings");
                return Err(error.into());
            };
            Ok(Settings {
                number: row.try_get(0)?,
                version: row.try_get(1)?,
                isolation: row.try_get(2)?,
                fsync: row.try_get(3)?,
                full_page_writes: row.try_get(4)?,
                synchronous_commit: row.try_get(5)?,
                standbys: row.try_get(6)?,
                read_only: row.try_get(7)?,
                is_standby: row.try_get(8)?,
                encoding: row.try_get(9)?,
                role: row.try_get(10)?,
            })
        })
    });
    let settings = call.await?;
    let place = connections.place();
    if let Err(error) = settings.refuse(place) {
        // After a fail-over the primary is elsewhere.
        connections.forget_idle();
        return Err(error);
    }
    let class = settings.class();
    if class < wanted {
        return Err(settings.too_weak(place, wanted));
    }
    if class < Durability::Disk {
        warn!(
            store = place,
            "synchronous_commit, fsync or full_page_writes is off for {}: a crash loses commits",
            settings.role
        );
    }
    Ok(class)
}

impl Settings {
    fn refuse(&self, place: &str) -> Result<()> {
        let misconfigured =
            |setting: String, fix: String| Err(Error::misconfigured(place, setting, fix));
        if self.number < OLDEST {
            let setting = format!("it is PostgreSQL {}", self.version);
            return misconfigured(setting, "use PostgreSQL 14 or newer".to_owned());
        }
        if self.is_standby || self.read_only == "on" {
            let detail = "it takes no writes: it is a standby, or default_transaction_read_only is \
                          on; name the primary, or all hosts with target_session_attrs=read-write";
            return Err(Error::read_only(place, detail));
        }
        if self.encoding != "UTF8" {
            let setting = format!("the encoding of the database is {}", self.encoding);
            let fix = "create it with: createdb -E UTF8 -T template0 NAME";
            return misconfigured(setting, fix.to_owned());
        }
        if self.isolation != "read committed" {
            let setting = format!("default_transaction_isolation is {}", self.isolation);
            let fix = format!(
                "run: ALTER ROLE {} SET default_transaction_isolation = 'read committed'",
                self.role
            );
            return misconfigured(setting, fix);
        }
        Ok(())
    }

    fn class(&self) -> Durability {
        let is_safe = self.fsync == "on" && self.full_page_writes == "on";
        match self.synchronous_commit.as_str() {
            "off" => Durability::Memory,
            _ if !is_safe => Durability::Process,
            "local" => Durability::Disk,
            _ if !self.standbys.is_empty() => Durability::Replicated,
            _ => Durability::Disk,
        }
    }

    fn too_weak(&self, place: &str, wanted: Durability) -> Error {
        let wanted = wanted.as_str();
        if self.synchronous_commit == "off" {
            return Error::misconfigured(
                place,
                format!("synchronous_commit is off, which is not enough for durability={wanted}"),
                format!("run: ALTER ROLE {} SET synchronous_commit = on", self.role),
            );
        }
        if self.fsync != "on" || self.full_page_writes != "on" {
            return Error::misconfigured(
                place,
                format!("fsync or full_page_writes is off, not enough for durability={wanted}"),
                "set fsync = on and full_page_writes = on in postgresql.conf".to_owned(),
            );
        }
        Error::misconfigured(
            place,
            format!("synchronous_standby_names is empty, not enough for durability={wanted}"),
            "name a standby in synchronous_standby_names, and keep synchronous_commit = on"
                .to_owned(),
        )
    }
}
