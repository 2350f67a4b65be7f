//! Consent of the person at the terminal, or of the script, to a change of many tasks.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::Failure;

/// Asks before a change of many tasks. `plan` is the change in words, such as `cancel 7 tasks`.
///
/// # Errors
/// `Refused` unless the answer is yes; without a terminal, unless `--yes` is given.
pub(crate) fn ask(plan: &str, is_given: bool) -> Result<(), Failure> {
    if is_given {
        return Ok(());
    }
    match answer(&format!("This will {plan}. Go on? [y/N] "))? {
        None => {
            let text = format!("this would {plan}: add --yes to do it, or --dry-run to look");
            Err(Failure::refused(text))
        }
        Some(line) if matches!(line.to_lowercase().as_str(), "y" | "yes") => Ok(()),
        Some(_) => Err(Failure::refused("nothing was changed")),
    }
}

/// Asks for the name of the thing to be removed. `given` is the name given by a script.
///
/// # Errors
/// `Refused` unless it is exactly `name`.
pub(crate) fn ask_for_name(plan: &str, name: &str, given: Option<&str>) -> Result<(), Failure> {
    let written = match given {
        Some(given) => Some(given.to_owned()),
        None => answer(&format!(
            "This will {plan}, for good. Type {name} to go on: "
        ))?,
    };
    match written {
        Some(written) if written == name => Ok(()),
        Some(_) => Err(Failure::refused(format!(
            "that is not {name}: nothing was changed"
        ))),
        None => Err(Failure::refused(format!(
            "this would {plan}, for good: add --yes {name} to do it"
        ))),
    }
}

/// The line typed by a person; `None` if there is no terminal.
fn answer(question: &str) -> io::Result<Option<String>> {
    let (stdin, mut stderr) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Ok(None);
    }
    stderr.write_all(question.as_bytes())?;
    stderr.flush()?;
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    Ok(Some(line.trim().to_owned()))
}
