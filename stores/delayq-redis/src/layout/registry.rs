//! Registry of layouts: one hash for the namespace, changed by compare and set.

use delayq_core::{Error, Result, TaskType};

use super::stored::{self, Layout, Unread};
use crate::connection::{Class, Command, RespValue};
use crate::scripts::Script;
use crate::shard::context::Context;

/// Number of types whose layouts are read in one step.
const TYPES_AT_ONCE: usize = 1_000;

/// A layout, and the text that it was read from, which a change is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) text: String,
    pub(crate) layout: Layout,
}

pub(crate) async fn read(cx: &Context, task_type: &TaskType) -> Result<Stored> {
    let key = cx.keys.layouts();
    let ask = Command::read(&["HGET", &key, task_type.as_str()]).at(cx.keys.slot());
    let text = match cx.connections.call(Class::Main, ask).await? {
        RespValue::Nil => {
            return Ok(Stored {
                text: String::new(),
                layout: Layout::default(),
            });
        }
        reply => reply.fields().text()?,
    };
    let layout = Layout::parse(&text).map_err(|unread| {
        let field = format!("{key}, field {task_type}");
        match unread {
            Unread::Damaged => Error::corrupt(field, format!("{text:?} is no list of shards")),
            Unread::Newer(found) => Error::Incompatible {
                what: field,
                found,
                supported: stored::VERSION,
            },
        }
    })?;
    Ok(Stored { text, layout })
}

/// The settled layouts of these types; types with other layouts are left out.
pub(crate) async fn read_settled(
    cx: &Context,
    types: &[TaskType],
) -> Result<Vec<(TaskType, Layout)>> {
    let key = cx.keys.layouts();
    let mut settled = Vec::with_capacity(types.len());
    for types in types.chunks(TYPES_AT_ONCE) {
        let names = types.iter().map(TaskType::as_str);
        let ask: Vec<&str> = ["HMGET", &key].into_iter().chain(names).collect();
        let ask = Command::read(&ask).at(cx.keys.slot());
        let mut texts = cx.connections.call(Class::Main, ask).await?.fields();
        for task_type in types {
            let text = texts.optional_text()?;
            let layout = text.as_deref().map_or(Ok(Layout::default()), Layout::parse);
            if let Ok(layout) = layout
                && !layout.is_opening
            {
                settled.push((task_type.clone(), layout));
            }
        }
    }
    Ok(settled)
}

/// Changes the layout of a type if it is still as it was read. Otherwise somebody else has changed
/// it.
pub(crate) async fn change(
    cx: &Context,
    task_type: &TaskType,
    read: &Stored,
    layout: &Layout,
) -> Result<()> {
    let text = layout.text();
    let keys = [cx.keys.layouts()];
    let command = Command::script(Script::Layout.lua(), cx.keys.slot(), &keys, 256)
        .arg(task_type.as_str())
        .arg(&read.text)
        .arg(&text);
    let answer = cx.connections.call(Class::Main, command).await?;
    if answer.fields().flag()? {
        tracing::info!(%task_type, layout = text, "the shards of a type have changed");
    }
    Ok(())
}
