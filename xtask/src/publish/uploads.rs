//! Uploads to the registry, one after the other, as fast as it takes new crates.

use std::time::{Duration, SystemTime};

use crate::call::Failure;

/// How long to wait where the registry gives no time.
const WAIT: Duration = Duration::from_mins(10);
/// How often a crate is tried.
const MAX_TRIES: usize = 30;

/// What the registry has answered.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Taken,
    /// This version is there already.
    IsThere,
    /// Too many crates in a short time.
    TryAfter(Option<SystemTime>),
    Refused,
}

/// Publishes each of the crates. `publish` says whether it was taken, and what cargo has said.
///
/// # Errors
/// A crate is refused, or the registry takes none for a long time.
pub(super) fn all(
    names: &[String],
    publish: impl Fn(&String) -> Result<(bool, String), Failure>,
    wait: impl Fn(&str, Option<SystemTime>),
) -> Result<(), Failure> {
    for name in names {
        let mut tries = 0;
        loop {
            let (is_taken, said) = publish(name)?;
            tries += 1;
            match answer(is_taken, &said) {
                Answer::Taken => break,
                Answer::IsThere => {
                    println!("  {name} is published");
                    break;
                }
                Answer::TryAfter(time) if tries < MAX_TRIES => wait(name, time),
                Answer::TryAfter(_) | Answer::Refused => {
                    return Err(Failure(format!(
                        "{name} is not published; a repeat leaves out what is"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Waits until this time.
#[allow(
    clippy::disallowed_methods,
    reason = "no event says that the registry takes further crates"
)]
pub(super) fn wait(name: &str, until: Option<SystemTime>) {
    // How long ago it was fails for a time that is still to come.
    let left = until.map_or(WAIT, |time| {
        let ahead = time.elapsed().err();
        ahead.map_or(Duration::ZERO, |ahead| ahead.duration())
    });
    // The clocks may differ a little.
    let left = left + Duration::from_secs(5);
    let seconds = left.as_secs();
    println!("  {name} waits for {seconds} s: the registry asks for it");
    std::thread::sleep(left);
}

fn answer(is_taken: bool, said: &str) -> Answer {
    if is_taken {
        return Answer::Taken;
    }
    if said.contains("already exists on") || said.contains("is already uploaded") {
        return Answer::IsThere;
    }
    if !said.contains("429 Too Many Requests") {
        return Answer::Refused;
    }
    let time = said.split_once("try again after ");
    let time = time.and_then(|(_, rest)| rest.split_once(" GMT"));
    let time = time.and_then(|(time, _)| httpdate::parse_http_date(&format!("{time} GMT")).ok());
    Answer::TryAfter(time)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const BUSY: &str = "error: failed to publish c v0.1.0 to registry\n\nCaused by:\n  the remote \
                        server responded with an error (status 429 Too Many Requests): You have \
                        published too many new crates in a short period of time. Please try again \
                        after Thu, 12 Dec 2024 14:24:53 GMT or email somebody";
    const THERE: &str = "error: crate a@0.1.0 already exists on crates.io index";

    #[test]
    fn a_repeat_leaves_out_what_is_published_and_waits_when_it_is_told_to() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let (asked, waited) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let publish = |name: &String| {
            asked.borrow_mut().push(name.clone());
            Ok(match (name.as_str(), asked.borrow().len()) {
                ("a", _) => (false, THERE.to_owned()),
                ("c", 3) => (false, BUSY.to_owned()),
                _ => (true, String::new()),
            })
        };
        all(&names, publish, |_, time| waited.borrow_mut().push(time)).unwrap();
        assert_eq!(*asked.borrow(), ["a", "b", "c", "c"]);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_734_013_493);
        assert_eq!(*waited.borrow(), [Some(time)]);
    }

    #[test]
    fn a_refused_crate_ends_it_and_so_does_a_registry_that_takes_none() {
        let names = ["a", "b"].map(str::to_owned);
        let asked = RefCell::new(0);
        let publish = |text: &'static str| {
            let asked = &asked;
            move |_: &String| {
                *asked.borrow_mut() += 1;
                Ok((false, text.to_owned()))
            }
        };
        let refused = all(&names, publish("error: 403"), |_, _| {}).unwrap_err();
        assert!(refused.0.starts_with("a is not published"), "{refused}");
        assert_eq!(asked.take(), 1);
        assert!(all(&names, publish(BUSY), |_, _| {}).is_err());
        assert_eq!(asked.take(), MAX_TRIES);
    }
}
