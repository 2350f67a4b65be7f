//! Parses the attribute and the item below it, and reports all mistakes.
//!
//! Every error points at the mistake and says what to write instead.

mod args;
mod compatible;
mod function;
mod implementation;
mod options;
mod rate;
mod recording;
mod schedule;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use args::{Args, Retry, RetryArgs};
pub(crate) use function::{Argument, Function, JsonType, Message, Passed};
pub(crate) use implementation::{Implementation, is_worker_impl, wrong_method};
pub(crate) use recording::Recording;
pub(crate) use value::TypeName;

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Result, Type, TypePath};

/// The item below the attribute.
pub(crate) enum Item {
    /// `impl TaskWorker for X { .. }`
    Implementation(Implementation),
    /// `async fn f(..) { .. }`
    Function(Function),
}

impl Parse for Item {
    fn parse(input: ParseStream) -> Result<Self> {
        match input.parse()? {
            syn::Item::Impl(item) => Implementation::new(item).map(Self::Implementation),
            syn::Item::Fn(item) => Function::new(item).map(Self::Function),
            other => Err(misplaced(&other)),
        }
    }
}

impl Item {
    /// Checks rules that concern both the attribute and the item.
    pub(crate) fn check(&self, args: &Args) -> Result<()> {
        match self {
            Self::Implementation(_) => Ok(()),
            Self::Function(function) => function.check_async(args.blocking),
        }
    }
}

fn misplaced(item: &syn::Item) -> Error {
    let (what, name) = match item {
        syn::Item::Struct(item) => ("a struct", Some(&item.ident)),
        syn::Item::Enum(item) => ("an enum", Some(&item.ident)),
        syn::Item::Trait(_) => ("a trait", None),
        syn::Item::Mod(_) => ("a module", None),
        _ => ("this item", None),
    };
    let span = name.map_or_else(|| item.span(), Ident::span);
    let name = name.map_or_else(|| "..".to_owned(), Ident::to_string);
    Error::new(
        span,
        format!(
            "#[task_worker] does not go on {what}: put it on `impl TaskWorker for {name}` or on an \
             `async fn`"
        ),
    )
}

/// `ty` without the invisible groups that a `macro_rules!` macro adds, and without parentheses.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        _ => ty,
    }
}

/// The last segment of a type such as `delayq_plugin::TaskContext`.
fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match bare(ty) {
        Type::Path(TypePath { path, .. }) => path.segments.last(),
        _ => None,
    }
}

fn is_named(ty: &Type, name: &str) -> bool {
    last_segment(ty).is_some_and(|segment| segment.ident == name)
}

/// True if `ty` is `[u8]`.
fn is_byte_slice(ty: &Type) -> bool {
    matches!(bare(ty), Type::Slice(slice) if is_named(&slice.elem, "u8"))
}

/// `ty` formatted as a person would write it.
fn written(ty: &Type) -> String {
    let mut text = ty.to_token_stream().to_string();
    for (spaced, close) in [
        (" < ", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" :: ", "::"),
        (" ,", ","),
    ] {
        text = text.replace(spaced, close);
    }
    text
}

/// The attribute named `name`, with or without a path before it.
pub(crate) fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    let is_meant = |path: &syn::Path| path.segments.last().is_some_and(|s| s.ident == name);
    attributes.iter().find(|a| is_meant(a.path()))
}

fn refuse<T>(span: Span, message: impl std::fmt::Display) -> Result<T> {
    Err(Error::new(span, message))
}
