//! Types that a store knows, and the name that was meant where it knows none.

use delayq_plugin::{Error, Result, TaskSubmitService, TaskType, TypePattern};

/// The type of this name, which has to be listed, or to have a pause or a limit.
///
/// Where the caller may not look, as with the token of one who only sends, nothing is known: the
/// type counts as listed, and the call that follows decides.
///
/// # Errors
/// `UnknownType` with the most similar name that is listed, `InvalidName`, and the store's errors.
pub async fn known_type(tasks: &TaskSubmitService, name: &str) -> Result<TaskType> {
    known_among(tasks, name, |_| true).await
}

/// The type that `types` names, as [`known_type`]; or, for a pattern, the listed types that match.
///
/// # Errors
/// `UnknownType` also for a pattern that matches none; otherwise as `known_type`.
pub async fn known_types(tasks: &TaskSubmitService, types: &str) -> Result<Vec<TaskType>> {
    known_types_among(tasks, types, |_| true).await
}

/// Like [`known_types`], for callers who may not see every type: an error names only a type of
/// which `may_name` is true.
///
/// # Errors
/// As `known_types`.
pub async fn known_types_among(
    tasks: &TaskSubmitService,
    types: &str,
    may_name: impl Fn(&TaskType) -> bool,
) -> Result<Vec<TaskType>> {
    let pattern = TypePattern::new(types)?;
    if let TypePattern::Exact(name) = &pattern {
        return Ok(vec![known_among(tasks, name.as_str(), may_name).await?]);
    }
    let listed = tasks.types().await?;
    let matching = listed.iter().filter(|one| pattern.matches(one));
    let matching: Vec<_> = matching.cloned().collect();
    if matching.is_empty() {
        return Err(unknown(types, &listed, may_name));
    }
    Ok(matching)
}

async fn known_among(
    tasks: &TaskSubmitService,
    name: &str,
    may_name: impl Fn(&TaskType) -> bool,
) -> Result<TaskType> {
    let task_type = TaskType::new(name)?;
    match look_up(tasks, &task_type).await {
        Ok(Some(listed)) => Err(unknown(name, &listed, may_name)),
        // The error is what a token, or a user of Redis, without the right to look is told.
        Ok(None) | Err(Error::Misconfigured { .. }) => Ok(task_type),
        Err(error) => Err(error),
    }
}

/// The listed types if this one is not known; `None` if it is.
async fn look_up(tasks: &TaskSubmitService, task_type: &TaskType) -> Result<Option<Vec<TaskType>>> {
    let listed = tasks.types().await?;
    let is_known =
        listed.binary_search(task_type).is_ok() || is_kept(tasks, task_type.as_str()).await?;
    Ok((!is_known).then_some(listed))
}

/// True if the store keeps something of a type that it does not list, such as a pause that was made
/// before the type's first task.
async fn is_kept(tasks: &TaskSubmitService, name: &str) -> Result<bool> {
    let stats = tasks.stats(name).await?;
    let has_limit = stats.max_pending.is_some()
        || stats.fleet_concurrency.is_some()
        || stats.fleet_rate.is_some();
    Ok(has_limit || stats.paused_until.is_some())
}

fn unknown(types: &str, listed: &[TaskType], may_name: impl Fn(&TaskType) -> bool) -> Error {
    let named = listed.iter().filter(|one| may_name(one));
    Error::UnknownType {
        types: types.to_owned(),
        nearest: nearest(types, named.map(TaskType::as_str)).map(str::to_owned),
    }
}

/// The name that `wanted` is probably a slip for: one with a third of its letters wrong at most.
#[must_use]
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.trim_end_matches(['*', '.']).to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&wanted, &name.to_lowercase());
    let most = (wanted.chars().count() / 3).max(1);
    let near = names.map(|name| (distance(name), name));
    let near = near.filter(|(distance, _)| *distance <= most);
    near.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let names = ["mail.send", "order.cancel", "sms.send"];
        let of = |wanted| nearest(wanted, names.into_iter());
        assert_eq!(of("sms.snt"), Some("sms.send"));
        assert_eq!(of("Mail.Send"), Some("mail.send"));
        assert_eq!(of("oder.cancel"), Some("order.cancel"));
        assert_eq!(of("report.nightly"), None);
        assert_eq!(of(""), None);
    }
}
