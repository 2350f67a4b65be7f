//! The values of `upcast` and `alias`: compatibility with messages sent by older programs.

use syn::{Expr, ExprPath, Lit, Meta};

use super::value::{Value, name_of, spanned, wrong};
use crate::name::check_word;

/// The path of a function.
pub(super) fn function(item: &Meta) -> Value<ExprPath> {
    if let Meta::NameValue(pair) = item
        && let Expr::Path(path) = &pair.value
    {
        return Ok(Some(spanned(path.clone(), path)));
    }
    let name = name_of(item);
    Err(wrong(
        item,
        format!(
            "`{name}` takes the path of a function, without quotes: write for example `{name} = \
             from_older`"
        ),
    ))
}

/// One task type, or several in brackets.
pub(super) fn task_types(item: &Meta) -> Value<Vec<String>> {
    let refused = || {
        wrong(
            item,
            "`alias` takes a former name of the type, or several in brackets: write for example \
             `alias = \"order.cancel-old\"`",
        )
    };
    let Meta::NameValue(pair) = item else {
        return Err(refused());
    };
    let texts = match &pair.value {
        Expr::Array(array) => array.elems.iter().map(text).collect::<Option<Vec<_>>>(),
        one => text(one).map(|one| vec![one]),
    };
    let texts = texts
        .filter(|texts| !texts.is_empty())
        .ok_or_else(refused)?;
    for text in &texts {
        check_word(text)
            .map_err(|rule| wrong(&pair.value, format!("invalid task type {text:?}: {rule}")))?;
    }
    Ok(Some(spanned(texts, &pair.value)))
}

fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(value) => match &value.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        Expr::Group(group) => text(&group.expr),
        _ => None,
    }
}
