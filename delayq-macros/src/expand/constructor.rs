//! `f::job(..)` and `f::TASK_TYPE` of a worker function `f`.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use syn::Type;

use super::{conditions, task_type};
use crate::parse::{Args, Function, Message};

/// An empty enum with the same name as the function. Functions are in the value namespace and enums
/// in the type namespace, so both can have the name, and one `use` imports both.
pub(super) fn constructor(private: &TokenStream, args: &Args, function: &Function) -> TokenStream {
    let item = &function.item;
    let (name, vis) = (&item.sig.ident, &item.vis);
    let conditions = conditions(&item.attrs);
    let docs = item.attrs.iter().filter(|a| a.path().is_ident("doc"));
    let about = format!("`{name}::job(..)` makes a job for the worker function `{name}`.");
    let task_type = task_type(private, args);
    let job = job(private, args, function);
    quote! {
        #(#conditions)*
        #(#docs)*
        #[doc = ""]
        #[doc = #about]
        #[allow(
            dead_code, non_camel_case_types, missing_copy_implementations,
            missing_debug_implementations,
            reason = "a name for the function's constructor, never a value"
        )]
        #vis enum #name {}

        #(#conditions)*
        const _: () = {
            #[allow(dead_code, reason = "its tasks may be sent by another program")]
            impl #name {
                /// The task type, or the pattern of task types, that the function serves.
                #vis const TASK_TYPE: &'static ::core::primitive::str = #task_type;

                #job
            }
        };
    }
}

/// `fn job`: its argument is the message, with the type before it if the function serves a pattern.
fn job(private: &TokenStream, args: &Args, function: &Function) -> TokenStream {
    let task_type = args.task_type.as_ref();
    let is_pattern = task_type.is_some_and(|name| name.is_pattern());
    let vis = &function.item.vis;
    let (type_argument, type_check, task_type) = if is_pattern {
        (
            Some(quote! { task_type: &::core::primitive::str, }),
            Some(quote! { #private::check_served(Self::TASK_TYPE, task_type)?; }),
            quote! { task_type },
        )
    } else {
        (None, None, quote! { Self::TASK_TYPE })
    };
    let (message, bound, mut made) = made(private, function.message(), &task_type);
    if args.version() > 1 {
        let version = Literal::u32_unsuffixed(args.version());
        made = quote! { (#made).map(|__job| __job.version(#version)) };
    }
    quote! {
        /// A job for this function, due now, with a generated id; sent by the submit service.
        ///
        /// # Errors
        /// When the message has no JSON form, or the function does not serve the task type.
        #vis fn job(#type_argument #message) -> #private::Result<#private::DelayQueueJob> #bound {
            #type_check
            #made
        }
    }
}

/// The message's argument, its trait bounds, and the expression that creates the job.
fn made(
    private: &TokenStream,
    message: Option<&Message>,
    task_type: &TokenStream,
) -> (TokenStream, Option<TokenStream>, TokenStream) {
    let raw = |message: TokenStream| {
        quote! {
            ::core::result::Result::Ok(#private::DelayQueueJob::raw(#task_type, #message))
        }
    };
    match message {
        None => (quote!(), None, raw(quote! { "" })),
        Some(Message::Text(_)) => (
            quote! { message: &::core::primitive::str },
            None,
            raw(quote! { message }),
        ),
        Some(Message::Bytes(_)) => (
            quote! { message: &[::core::primitive::u8] },
            None,
            raw(quote! { message }),
        ),
        Some(Message::Json(json)) => {
            let ty = &json.of;
            (
                quote! { message: &#ty },
                serialize(private, ty),
                quote! { #private::DelayQueueJob::new(#task_type, message) },
            )
        }
    }
}

/// `where T: Serialize`, which is only checked if `job` is called: a program that only receives the
/// message needs no `Serialize`. The `for<'a>` delays the check. A type with an elided lifetime
/// cannot be in a where clause, so it always has to be `Serialize`.
fn serialize(private: &TokenStream, ty: &Type) -> Option<TokenStream> {
    let text = ty.to_token_stream().to_string();
    (!text.contains(['&', '\''])).then(|| {
        quote! { where for<'__delayq> #ty: #private::Serialize }
    })
}
