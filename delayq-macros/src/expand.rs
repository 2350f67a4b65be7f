//! Builds the code that replaces the attribute and its item.

mod constructor;
mod registration;

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, ImplItem, ItemFn, ItemImpl, Pat, Result, Type, parse_quote};

use crate::parse::{Args, Item, TypeName, attribute, is_worker_impl, wrong_method};
use constructor::constructor;
use registration::registration;

/// The whole macro.
///
/// The user's item is always part of the output. After a mistake, this keeps the compiler from
/// reporting consequences: an unknown function, a missing trait implementation, a different
/// signature.
pub(crate) fn task_worker(attribute: TokenStream, tokens: TokenStream) -> TokenStream {
    let private = match private_module() {
        Ok(private) => private,
        Err(error) => return beside(&error, &tokens),
    };
    let args = Args::parse(attribute.clone());
    match (args, syn::parse2::<Item>(tokens.clone())) {
        (Ok(args), Ok(item)) => {
            let parts = written(&private, &args, &item);
            match item.check(&args) {
                Ok(()) => {
                    let registration = registration(&private, &args, &item);
                    quote! { #parts #registration }
                }
                Err(error) => beside(&error, &parts),
            }
        }
        (Err(error), Ok(item)) => {
            let args = Args::type_only(attribute);
            beside(&error, &written(&private, &args, &item))
        }
        (Ok(_), Err(error)) => beside(&error, &mended(&private, tokens)),
        (Err(mut errors), Err(error)) => {
            errors.combine(error);
            beside(&errors, &mended(&private, tokens))
        }
    }
}

fn beside(error: &Error, item: &TokenStream) -> TokenStream {
    let error = error.to_compile_error();
    quote! { #error #item }
}

/// The path of `__private`, whatever name the user's Cargo.toml gives the crate.
fn private_module() -> Result<TokenStream> {
    let root = root("delayq-plugin", "delayq_plugin")
        .or_else(|| root("delayq-core", "delayq_core"))
        .ok_or_else(|| {
            Error::new(
                Span::call_site(),
                "delayq-plugin is not among the dependencies of this crate: run `cargo add \
                 delayq-plugin`",
            )
        })?;
    Ok(quote! { ::#root::__private })
}

fn root(package: &str, library: &str) -> Option<Ident> {
    match crate_name(package) {
        Ok(FoundCrate::Name(name)) => Some(format_ident!("{name}")),
        Err(proc_macro_crate::Error::CrateNotFound { .. }) => None,
        // The crate itself: its tests, examples and doc tests (the library has an
        // `extern crate self`). On an error the build does not use Cargo, and then nothing renames
        // the crate.
        Ok(FoundCrate::Itself) | Err(_) => Some(format_ident!("{library}")),
    }
}

/// The user's item, and the constructor of a function.
fn written(private: &TokenStream, args: &Args, item: &Item) -> TokenStream {
    match item {
        Item::Implementation(worker) => asynchronous(private, worker.item.clone()),
        Item::Function(function) => {
            let item = &function.item;
            let constructor = constructor(private, args, function);
            quote! {
                #[allow(
                    clippy::needless_pass_by_value, clippy::unused_async,
                    reason = "its signature is the one that task_worker asks for"
                )]
                #item
                #constructor
            }
        }
    }
}

/// `item` with `#[async_trait]` added last, so that other attributes see the user's own code.
fn asynchronous(private: &TokenStream, mut item: ItemImpl) -> TokenStream {
    if attribute(&item.attrs, "async_trait").is_none() {
        item.attrs.push(parse_quote! { #[#private::async_trait] });
    }
    quote! { #item }
}

/// The item of a refused use, unchanged, except that an impl of `TaskWorker` is changed so that it
/// compiles. Its wrong methods move into a separate impl, where the compiler still checks their
/// bodies.
fn mended(private: &TokenStream, tokens: TokenStream) -> TokenStream {
    let mut item = match syn::parse2::<ItemImpl>(tokens.clone()) {
        Ok(item) if is_worker_impl(&item) => item,
        _ => return without_patterns(tokens),
    };
    let is_wrong = |item: &ImplItem| match item {
        ImplItem::Fn(method) => wrong_method(method).is_some(),
        _ => false,
    };
    let is_invoke = |item: &ImplItem| match item {
        ImplItem::Fn(method) => method.sig.ident == "invoke",
        _ => false,
    };
    let wrong: Vec<_> = item.items.extract_if(.., |item| is_wrong(item)).collect();
    if !item.items.iter().any(is_invoke) {
        item.items.push(parse_quote! {
            async fn invoke(&self, _: &::core::primitive::str, _: &#private::TaskContext)
                -> #private::TaskResult
            {
                ::core::unreachable!()
            }
        });
    }
    item.attrs
        .retain(|attribute| !is_called(attribute, "async_trait"));
    let (generics, _, bounds) = item.generics.split_for_impl();
    let self_ty = &item.self_ty;
    let rest = quote! {
        #[allow(dead_code, reason = "called once its signature is right")]
        impl #generics #self_ty #bounds { #(#wrong)* }
    };
    let rest = (!wrong.is_empty()).then_some(rest);
    let item = asynchronous(private, item);
    quote! { #item #rest }
}

/// The item of a refused use. Argument patterns such as `&message: &str` are left out.
fn without_patterns(tokens: TokenStream) -> TokenStream {
    let Ok(mut item) = syn::parse2::<ItemFn>(tokens.clone()) else {
        return tokens;
    };
    for input in &mut item.sig.inputs {
        if let FnArg::Typed(input) = input
            && let Pat::Reference(pattern) = &*input.pat
            && matches!(*input.ty, Type::Reference(_))
        {
            let inner = pattern.pat.clone();
            input.pat = inner;
        }
    }
    quote! { #item }
}

fn is_called(attribute: &Attribute, name: &str) -> bool {
    crate::parse::attribute(std::slice::from_ref(attribute), name).is_some()
}

/// The task type as an expression; empty if it is missing, which has its own error.
fn task_type(private: &TokenStream, args: &Args) -> TokenStream {
    match args.task_type.as_deref() {
        None => quote! { "" },
        Some(TypeName::Text(text)) => quote! { #text },
        Some(TypeName::Constant(path)) => {
            quote_spanned! {path.span()=> #private::constant_task_type(#path) }
        }
    }
}

/// The `#[cfg(..)]`s below the macro. They also apply to the generated code, so that it exists only
/// together with the item.
fn conditions(attributes: &[Attribute]) -> Vec<&Attribute> {
    let is_condition = |attribute: &&Attribute| attribute.path().is_ident("cfg");
    attributes.iter().filter(is_condition).collect()
}
