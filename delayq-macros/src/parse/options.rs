//! The options in a list, by name: parsed, or refused with what to write.

use darling::ast::NestedMeta;
use darling::error::Accumulator;
use darling::util::path_to_string;
use darling::{Error, FromMeta, Result};
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Meta;

/// Minimum similarity for suggesting a name; darling uses the same value.
const ALIKE: f64 = 0.8;

pub(super) const OPTIONS: &[&str] = &[
    "type",
    "name",
    "retry",
    "max_releases",
    "timeout",
    "lock",
    "concurrency",
    "pool",
    "weight",
    "delivery",
    "blocking",
    "on_late",
    "late_after",
    "late_spread",
    "fleet_concurrency",
    "fleet_rate",
    "max_pending",
    "shards",
    "history",
    "history_retention",
    "quote_message",
    "every",
    "zone",
    "version",
    "upcast",
    "alias",
];
pub(super) const RETRY_OPTIONS: &[&str] = &["max", "backoff", "base", "cap", "jitter"];

/// Splits the list at the commas.
pub(super) fn list(tokens: TokenStream) -> syn::Result<Vec<NestedMeta>> {
    NestedMeta::parse_meta_list(tokens).map_err(|error| {
        let message =
            format!("{error}: write `name = value, ..`, and put text such as \"1m 30s\" in quotes");
        syn::Error::new(error.span(), message)
    })
}

/// Parses `items` as a `T` with these `options`.
pub(super) fn read<T: FromMeta>(items: &[NestedMeta], options: &[&str]) -> Result<T> {
    let mut errors = Error::accumulator();
    let known = known(items, options, &mut errors);
    let value = errors.handle(T::from_list(&known));
    errors.finish()?;
    value.ok_or_else(|| Error::custom("no value and no error"))
}

/// The items that are options with a value; others become errors with this crate's texts.
fn known(items: &[NestedMeta], options: &[&str], errors: &mut Accumulator) -> Vec<NestedMeta> {
    let mut seen = Vec::new();
    let mut known = Vec::new();
    let misplaced = misplaced(items, options);
    if let Some((error, _)) = &misplaced {
        errors.push(error.clone());
    }
    let misplaced = misplaced.map_or_else(Vec::new, |(_, names)| names);
    for item in items {
        let name = name(item);
        if misplaced.contains(&name) {
            continue;
        }
        match refusal(item, &name, options) {
            Some(error) => errors.push(error.with_span(item)),
            None if seen.contains(&name) => errors.push(
                Error::custom(format!("`{name}` is given twice: remove one")).with_span(item),
            ),
            None => known.push(item.clone()),
        }
        seen.push(name);
    }
    known
}

/// One error for all options of `retry(..)` that are outside it, or the other way round, and their
/// names.
fn misplaced(items: &[NestedMeta], options: &[&str]) -> Option<(Error, Vec<String>)> {
    let in_retry = options == RETRY_OPTIONS;
    let others = if in_retry { OPTIONS } else { RETRY_OPTIONS };
    let is_misplaced = |item: &&NestedMeta| {
        let name = name(item);
        others.contains(&name.as_str()) && !options.contains(&name.as_str())
    };
    let found: Vec<_> = items.iter().filter(is_misplaced).collect();
    let first = found.first()?;
    let names: Vec<_> = found.iter().map(|item| name(item)).collect();
    let written: Vec<_> = found.iter().map(|item| written(item)).collect();
    let (all, written) = (names.join("`, `"), written.join(", "));
    let message = if in_retry {
        format!("not in `retry(..)`: `{all}`; write `{written}` after its parentheses")
    } else {
        format!("only in `retry(..)`: `{all}`; write `retry({written})`")
    };
    Some((Error::custom(message).with_span(*first), names))
}

/// `item` formatted as a person would write it.
fn written(item: &NestedMeta) -> String {
    match item {
        NestedMeta::Meta(Meta::NameValue(pair)) => {
            format!("{} = {}", name(item), pair.value.to_token_stream())
        }
        _ => item.to_token_stream().to_string(),
    }
}

fn name(item: &NestedMeta) -> String {
    match item {
        NestedMeta::Meta(meta) => path_to_string(meta.path()),
        NestedMeta::NameValueInvalidExpr(pair) => path_to_string(&pair.path),
        NestedMeta::Lit(_) => String::new(),
    }
}

fn refusal(item: &NestedMeta, name: &str, options: &[&str]) -> Option<Error> {
    if let NestedMeta::Lit(value) = item {
        let first = options.first().copied().unwrap_or_default();
        let value = value.to_token_stream();
        return Some(Error::custom(format!(
            "a value without the name of its option: write for example `{first} = {value}`"
        )));
    }
    if !options.contains(&name) {
        return Some(unknown(name, options));
    }
    let NestedMeta::NameValueInvalidExpr(pair) = item else {
        return None;
    };
    Some(Error::custom(if pair.value.is_empty() {
        format!("the value of `{name}` is missing after the `=`")
    } else {
        format!("this is no value: text goes in quotes, as in `{name} = \"..\"`")
    }))
}

fn unknown(name: &str, options: &[&str]) -> Error {
    let meant = options
        .iter()
        .map(|option| (strsim::jaro_winkler(name, option), option))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = meant.map_or_else(String::new, |(_, option)| {
        format!("did you mean `{option}`? ")
    });
    let all = options.join("`, `");
    Error::custom(format!(
        "unknown option `{name}`: {hint}the options are `{all}`"
    ))
}
