//! Announcements of applications that the server calls.

use std::time::Duration;

use delayq_plugin::TaskType;

use crate::access::Caller;
use crate::problem::Problem;
use crate::push::Announced;
use crate::space::Space;

/// The lifetime of an announcement that names none.
const LEASE: Duration = Duration::from_secs(30);
/// The allowed lifetimes of an announcement.
const LEASES: std::ops::RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_hours(1);
/// The largest number of types of an application.
const MAX_TYPES: usize = 1_000;
/// The longest name of an application, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// An application's announcement.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// The URL to call.
    pub url: String,
    /// The types that it serves.
    pub types: Vec<String>,
    /// The lifetime of the announcement; `None` means the default.
    pub lease: Option<Duration>,
}

impl Announcement {
    /// The lifetime of the announcement.
    pub fn lease(&self) -> Result<Duration, Problem> {
        let lease = self.lease.unwrap_or(LEASE);
        if !LEASES.contains(&lease) {
            return Err(Problem::bad_request("lease: use 3s to 1h"));
        }
        Ok(lease)
    }

    /// Announces the application `name`. Returns the end of the announcement, in milliseconds since
    /// the epoch.
    pub async fn take(self, space: &Space, caller: &Caller, name: &str) -> Result<i64, Problem> {
        check_name(name)?;
        let lease = self.lease()?;
        let types = &self.types;
        if types.is_empty() || types.len() > MAX_TYPES {
            let text = format!("types: name 1 to {MAX_TYPES}");
            return Err(Problem::bad_request(text));
        }
        let types = types.iter().map(|one| caller.require_type(one));
        let types = types.collect::<Result<Vec<TaskType>, Problem>>()?;
        require_present(space, caller, name).await?;
        let announced = Announced::new(self.url, types, lease);
        space.push.announce(name, &announced).await?;
        Ok(announced.until_ms)
    }
}

/// Withdraws an announcement; returns true if it existed.
pub async fn withdraw(space: &Space, caller: &Caller, name: &str) -> Result<bool, Problem> {
    check_name(name)?;
    require_present(space, caller, name).await?;
    space.push.withdraw(name).await
}

/// Refuses a token that does not cover the types that the application serves now.
async fn require_present(space: &Space, caller: &Caller, name: &str) -> Result<(), Problem> {
    let all = space.push.callees().await?;
    let types = all.iter().filter(|(other, _)| other == name);
    for task_type in types.flat_map(|(_, announced)| &announced.types) {
        caller.require_type(task_type.as_str())?;
    }
    Ok(())
}

/// Refuses an invalid application name.
pub fn check_name(name: &str) -> Result<(), Problem> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_word) {
        return Ok(());
    }
    let text = "the name of an application: use 1 to 200 of A-Z a-z 0-9 . _ - :";
    Err(Problem::bad_request(text))
}
