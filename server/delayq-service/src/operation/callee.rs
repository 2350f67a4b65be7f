//! Applications that announce where they are called.

use std::time::Duration;

use delayq_plugin::TaskType;

use crate::access::Caller;
use crate::problem::Problem;
use crate::push::Announced;
use crate::space::Space;

/// How long an announcement holds, unless it says.
const LEASE: Duration = Duration::from_secs(30);
/// What it may say.
const LEASES: std::ops::RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_hours(1);
/// Most types of an application.
const MAX_TYPES: usize = 1_000;
/// Most bytes of the name of an application.
const MAX_NAME_BYTES: usize = 200;

/// What an application says of itself.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// Where it is called.
    pub url: String,
    /// The types that it serves.
    pub types: Vec<String>,
    /// How long this holds; `None`: as usual.
    pub lease: Option<Duration>,
}

impl Announcement {
    /// How long it holds.
    pub fn lease(&self) -> Result<Duration, Problem> {
        let lease = self.lease.unwrap_or(LEASE);
        if !LEASES.contains(&lease) {
            return Err(Problem::bad_request("lease: use 3s to 1h"));
        }
        Ok(lease)
    }

    /// Announces the application `name`; when that ends, in milliseconds since the epoch.
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

/// Takes the announcement of an application back; whether there was one.
pub async fn withdraw(space: &Space, caller: &Caller, name: &str) -> Result<bool, Problem> {
    check_name(name)?;
    require_present(space, caller, name).await?;
    space.push.withdraw(name).await
}

/// Refuses a token that is not for what the application of this name serves now.
async fn require_present(space: &Space, caller: &Caller, name: &str) -> Result<(), Problem> {
    let all = space.push.callees().await?;
    let types = all.iter().filter(|(other, _)| other == name);
    for task_type in types.flat_map(|(_, announced)| &announced.types) {
        caller.require_type(task_type.as_str())?;
    }
    Ok(())
}

/// Refuses what is no name of an application.
pub fn check_name(name: &str) -> Result<(), Problem> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_word) {
        return Ok(());
    }
    let text = "the name of an application: use 1 to 200 of A-Z a-z 0-9 . _ - :";
    Err(Problem::bad_request(text))
}
