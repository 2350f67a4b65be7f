//! `audit`: checks the stored structure.

use clap::Args;
use delayq_ops::{Operator, known_type};
use delayq_plugin::{AuditReport, TaskType};
use serde_json::{Value, json};

use crate::answer::CommandResult;
use crate::consent::ask;
use crate::failure::Failure;
use crate::text::{BAD, counted, one_line, styled};

/// The types to audit.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The type; default: all types.
    #[arg(value_name = "TYPE")]
    task_type: Option<TaskType>,
    /// Mend the damage without losing a task: tasks that cannot run go to dead, tasks in no index
    /// are scheduled.
    #[arg(long)]
    repair: bool,
    /// Do not ask before mending.
    #[arg(long, requires = "repair")]
    yes: bool,
}

/// The report of one type.
struct AuditedType {
    task_type: TaskType,
    report: AuditReport,
}

/// Runs the command.
pub(super) async fn run(operator: &Operator, args: &AuditArgs) -> Result<CommandResult, Failure> {
    let types = match &args.task_type {
        Some(task_type) => vec![known_type(operator.tasks(), task_type.as_str()).await?],
        None => operator.tasks().types().await?,
    };
    let mut audited = audit(operator, &types, false).await?;
    let problems = count(&audited, |_| true);
    if args.repair && problems > 0 {
        ask(&format!("mend {}", counted(problems, "problem")), args.yes)?;
        audited = audit(operator, &types, true).await?;
    }
    let left = count(&audited, |is_mended| !is_mended);
    let (mut text, mut json) = (String::new(), Vec::new());
    for one in &audited {
        let tasks = counted(one.report.checked, "task");
        text += &format!("{}: {tasks}", one.task_type);
        for problem in &one.report.problems {
            let what = one_line(&format!("{}: {}", problem.id, problem.what));
            let end = if problem.repaired { ", mended" } else { "" };
            text += &format!("\n  {}{end}", styled(BAD, what));
        }
        text.push('\n');
        json.push(as_json(one));
    }
    text.push_str(&match problems {
        0 => "sound".to_owned(),
        found => format!("{}, {left} left", counted(found, "problem")),
    });
    Ok(CommandResult::new(text, json)?.done_if(left == 0))
}

async fn audit(
    operator: &Operator,
    types: &[TaskType],
    repair: bool,
) -> Result<Vec<AuditedType>, Failure> {
    let mut audited = Vec::new();
    for task_type in types {
        let name = task_type.as_str();
        let report = if repair {
            operator.repair(name).await?
        } else {
            operator.tasks().audit(name, false).await?
        };
        let task_type = task_type.clone();
        audited.push(AuditedType { task_type, report });
    }
    Ok(audited)
}

fn count(audited: &[AuditedType], is_meant: impl Fn(bool) -> bool) -> u64 {
    let problems = audited.iter().flat_map(|one| &one.report.problems);
    problems.filter(|one| is_meant(one.repaired)).count() as u64
}

fn as_json(one: &AuditedType) -> Value {
    let problems = one.report.problems.iter();
    let problems = problems
        .map(|found| json!({"id": found.id, "what": found.what, "repaired": found.repaired}));
    json!({
        "type": one.task_type, "checked": one.report.checked,
        "problems": problems.collect::<Vec<_>>(),
    })
}
