//! `doctor`: problems of a store, its types and its instances, and their fixes.

use delayq_ops::{Severity, doctor};
use delayq_plugin::TaskSubmitService;

use crate::answer::CommandResult;
use crate::connection::StoreArgs;
use crate::failure::Failure;
use crate::text::{BAD, FAINT, STRONG, one_line, styled};

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    store: &StoreArgs,
) -> Result<CommandResult, Failure> {
    let mut findings = doctor(tasks).await;
    for command in findings.iter_mut().filter_map(|one| one.command.as_mut()) {
        *command = store.on_this_store(command);
    }
    let mut text = String::new();
    for one in &findings {
        let (style, grade) = match one.severity {
            Severity::Error => (BAD, "error"),
            Severity::Warning => (STRONG, "warning"),
            _ => (FAINT, "note"),
        };
        text += &format!(
            "{} {}\n  why: {}\n  do:  {}\n",
            styled(style, grade),
            one_line(&one.found),
            one_line(&one.why),
            one_line(&one.fix)
        );
        if let Some(command) = &one.command {
            text += &format!("  run: {}\n", styled(STRONG, one_line(command)));
        }
    }
    if findings.is_empty() {
        "nothing to mend".clone_into(&mut text);
    }
    let is_sound = findings.iter().all(|one| one.severity != Severity::Error);
    Ok(CommandResult::new(text, findings)?.done_if(is_sound))
}
