//! `pair`: a hot and a cold store that belong together, of which one is an older copy.

use serde_json::json;

use crate::answer::CommandResult;
use crate::connection::{self, StoreArgs};
use crate::consent::ask;
use crate::failure::Failure;
use crate::store_url::shown;

/// The consent.
#[derive(Debug, clap::Args)]
pub(crate) struct PairArgs {
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Marks the stores that the arguments, the environment or the file name.
pub(crate) async fn run(args: &PairArgs, store: &StoreArgs) -> Result<CommandResult, Failure> {
    let pair = connection::pair(store)?;
    let (hot, cold) = (shown(&pair.hot_url), shown(&pair.cold_url));
    let plan = format!(
        "mark {cold} as the cold store of {hot}, namespace {}, so that the tasks of both are those \
         of one application. Every other process has to be stopped",
        pair.options.namespace
    );
    ask(&plan, args.yes)?;
    let is_marked = pair.cold.mark_as_pair(&pair.hot_url, pair.options).await?;
    let text = if is_marked {
        "they are a pair now"
    } else {
        "they are a pair already: nothing was changed"
    };
    CommandResult::new(
        text,
        json!({"hot": hot, "cold": cold, "is_marked": is_marked}),
    )
}
