//! The actor and origin that the log of actions shows for a command.

use delayq_ops::Operator;
use delayq_plugin::TaskSubmitService;

/// Variables that name the actor; the first one that is set counts.
const VARIABLES: [&str; 4] = ["DELAYQ_ACTOR", "USER", "LOGNAME", "USERNAME"];

/// The operator used for the changes of this command. `given` is the name from `--as`.
pub(crate) fn operator(tasks: &TaskSubmitService, given: Option<&str>) -> Operator {
    let variable = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let actor = given
        .map(str::to_owned)
        .or_else(|| VARIABLES.iter().find_map(variable))
        .unwrap_or_else(user_number);
    Operator::new(tasks, actor, format!("{} delayq-cli", host()))
}

/// Parses a name on the command line.
pub(crate) fn read_name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("write the name of who acts".to_owned()),
        name => Ok(name.to_owned()),
    }
}

#[cfg(unix)]
fn user_number() -> String {
    format!("uid {}", rustix::process::getuid().as_raw())
}

#[cfg(not(unix))]
fn user_number() -> String {
    "unknown".to_owned()
}

#[cfg(unix)]
fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
