//! Target of one task, in its headers.

use delayq_core::task::Headers;
use delayq_plugin::{Error, Result};

use super::{Courier, Target};
use crate::json::read_object;

/// The header of a task that has its target, as JSON. What else a server notes about the target of
/// a task is in headers that begin with this name: see [`is_reserved`].
pub const OWN_TARGET: &str = "delayq-target";

/// Whether only a server gives a task this header. No door shows it, and none takes it.
pub(super) fn is_reserved(name: &str) -> bool {
    let begin = name.get(..OWN_TARGET.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(OWN_TARGET))
}

/// Refuses headers of a task that only a server gives it.
///
/// # Errors
/// `InvalidInput` that says how a task gets a target.
pub fn refuse_reserved<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Result<()> {
    if !names.into_iter().any(|name| is_reserved(name.as_ref())) {
        return Ok(());
    }
    let reason = "a task gets its target by the header Delayq-Target of its create, or by `target` \
                  over gRPC: headers of a task that begin with delayq-target are not taken";
    Err(Error::invalid("header", reason))
}

/// Takes what a client is not shown out of the headers of a task.
pub fn veil(headers: &mut Headers) {
    if headers.keys().any(|name| is_reserved(name)) {
        headers.retain(|name, _| !is_reserved(name));
    }
}

/// Reads a target as a client gives it for one task.
pub(super) fn read(text: &str, courier: &Courier) -> Result<Target, String> {
    let target: Target = read_object(text.as_bytes()).map_err(|error| error.to_string())?;
    target.check_of_task(&courier.guard, &courier.config)?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_about_the_target_are_the_servers_however_they_are_written() {
        for name in [
            "delayq-target",
            "Delayq-Target",
            "DELAYQ-TARGET-SEAL",
            "delayq-target-x",
        ] {
            assert!(is_reserved(name), "{name}");
            let said = refuse_reserved(["a", name]).unwrap_err().to_string();
            assert!(said.contains("Delayq-Target"), "{said}");
        }
        let others = [
            "delayq-version",
            "delayq-batch",
            "target",
            "x-delayq-target",
            "delayq-ta",
        ];
        refuse_reserved(others).unwrap();
    }
}
