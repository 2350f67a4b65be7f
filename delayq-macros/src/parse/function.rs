//! The function form: `async fn f(Json(order): Json<Order>, ..) -> TaskResult`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Error, FnArg, GenericArgument, ItemFn, PathArguments, Result, ReturnType, Safety, Type};

use super::{attribute, bare, is_byte_slice, is_named, last_segment, refuse, written};

/// A function that can be a worker.
pub(crate) struct Function {
    pub(crate) item: ItemFn,
    pub(crate) arguments: Vec<Argument>,
}

/// What one argument is filled from.
pub(crate) enum Argument {
    Message(Message),
    Context(Passed),
    /// With the whole type, `Component<T>`.
    Component(Box<Type>),
}

/// How the message is read.
pub(crate) enum Message {
    /// With the `T` of `Json<T>`.
    Json(Box<Type>),
    Text(Passed),
    Bytes(Passed),
}

/// Whether the function takes `&T` or `T`.
#[derive(Clone, Copy)]
pub(crate) enum Passed {
    Borrowed,
    Owned,
}

impl Function {
    pub(super) fn new(item: ItemFn) -> Result<Self> {
        check_signature(&item)?;
        let arguments = arguments(&item)?;
        Ok(Self { item, arguments })
    }

    /// The message's argument, if the function takes one.
    pub(crate) fn message(&self) -> Option<&Message> {
        self.arguments.iter().find_map(|argument| match argument {
            Argument::Message(message) => Some(message),
            _ => None,
        })
    }

    /// What the function returns, written out.
    pub(crate) fn output(&self) -> TokenStream {
        match &self.item.sig.output {
            ReturnType::Default => quote::quote!(()),
            ReturnType::Type(_, ty) => ty.to_token_stream(),
        }
    }

    pub(super) fn check_async(&self, blocking: bool) -> Result<()> {
        let sig = &self.item.sig;
        if sig.asyncness.is_some() || blocking {
            return Ok(());
        }
        refuse(
            sig.fn_token.span,
            format!(
                "write `async fn {}`; if it blocks its thread, add `blocking` to #[task_worker(..)] \
                 instead",
                sig.ident
            ),
        )
    }
}

fn check_signature(item: &ItemFn) -> Result<()> {
    let sig = &item.sig;
    if let Some(receiver) = sig.receiver() {
        return refuse(
            receiver.self_token.span,
            "a worker function takes no `self`: for a worker with state put #[task_worker] on `impl \
             TaskWorker for ..`, or take the state as `Component<T>`",
        );
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &sig.generics,
            "a worker function takes no generic parameters: it is registered once, so name the types \
             (and leave lifetimes out)",
        ));
    }
    if let Safety::Unsafe(token) = &sig.safety {
        return refuse(
            token.span,
            "a worker function is called by delayq: remove `unsafe`",
        );
    }
    if let Some(abi) = &sig.abi {
        return Err(Error::new_spanned(
            abi,
            "a worker function is called by delayq: remove `extern`",
        ));
    }
    if let Some(again) = attribute(&item.attrs, "task_worker") {
        return Err(Error::new_spanned(
            again.path(),
            "a function serves one type: write a second function, or one pattern such as `type = \
             \"report.*\"`",
        ));
    }
    check_output(&sig.output)
}

fn check_output(output: &ReturnType) -> Result<()> {
    match output {
        ReturnType::Type(_, ty) if matches!(bare(ty), Type::ImplTrait(_)) => Err(
            Error::new_spanned(ty, "write an `async fn` that returns `TaskResult`"),
        ),
        _ => Ok(()),
    }
}

fn arguments(item: &ItemFn) -> Result<Vec<Argument>> {
    let mut arguments = Vec::new();
    let mut message = None;
    for input in &item.sig.inputs {
        let FnArg::Typed(input) = input else { continue };
        let argument = argument(&input.ty)?;
        if matches!(argument, Argument::Message(_))
            && let Some(first) = message.replace(&input.ty)
        {
            return Err(second_message(first, &input.ty));
        }
        arguments.push(argument);
    }
    Ok(arguments)
}

fn second_message(first: &Type, second: &Type) -> Error {
    Error::new_spanned(
        second,
        format!(
            "a task has one message, and `{}` takes it already: remove one of the two",
            written(first)
        ),
    )
}

fn argument(ty: &Type) -> Result<Argument> {
    match bare(ty) {
        Type::Reference(reference) if reference.mutability.is_none() => {
            borrowed(&reference.elem).ok_or_else(|| unknown(ty))
        }
        Type::Path(_) => owned(ty),
        _ => Err(unknown(ty)),
    }
}

fn borrowed(ty: &Type) -> Option<Argument> {
    match () {
        () if is_named(ty, "str") => Some(Argument::Message(Message::Text(Passed::Borrowed))),
        () if is_named(ty, "TaskContext") => Some(Argument::Context(Passed::Borrowed)),
        () if is_byte_slice(ty) => Some(Argument::Message(Message::Bytes(Passed::Borrowed))),
        () => None,
    }
}

fn owned(ty: &Type) -> Result<Argument> {
    let Some(segment) = last_segment(ty) else {
        return Err(unknown(ty));
    };
    let parameter = parameter(&segment.arguments);
    match (segment.ident.to_string().as_str(), parameter) {
        ("String", None) => Ok(Argument::Message(Message::Text(Passed::Owned))),
        ("TaskContext", None) => Ok(Argument::Context(Passed::Owned)),
        ("Vec", Some(item)) if is_named(item, "u8") => {
            Ok(Argument::Message(Message::Bytes(Passed::Owned)))
        }
        ("Json", Some(of)) => Ok(Argument::Message(Message::Json(Box::new(of.clone())))),
        ("Component", Some(_)) => Ok(Argument::Component(Box::new(ty.clone()))),
        (name @ ("Json" | "Component"), None) => Err(Error::new_spanned(
            ty,
            format!(
                "say of which type: write for example `{name}<{}>`",
                example(name)
            ),
        )),
        _ => Err(unknown(ty)),
    }
}

fn example(name: &str) -> &'static str {
    if name == "Json" { "Order" } else { "Pool" }
}

/// The `T` of `<T>`.
fn parameter(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else {
        return None;
    };
    let mut arguments = arguments.args.iter();
    match (arguments.next(), arguments.next()) {
        (Some(GenericArgument::Type(ty)), None) if !matches!(ty, Type::ImplTrait(_)) => Some(ty),
        _ => None,
    }
}

fn unknown(ty: &Type) -> Error {
    let hint = hint(ty).unwrap_or_default();
    Error::new_spanned(
        ty,
        format!(
            "a worker function cannot take `{}`{hint}; it takes the message (one of `Json<T>`, \
             `&str`, `String`, `&[u8]`, `Vec<u8>`), `&TaskContext`, and any number of \
             `Component<T>`, in any order",
            written(ty)
        ),
    )
}

/// What was probably meant.
fn hint(ty: &Type) -> Option<String> {
    let inner = match bare(ty) {
        Type::Reference(reference) => &reference.elem,
        _ => ty,
    };
    let segment = last_segment(inner)?;
    let of = parameter(&segment.arguments).map(written);
    match (segment.ident.to_string().as_str(), of) {
        (name @ ("Json" | "Component"), Some(of)) => Some(format!(": write `{name}<{of}>`")),
        ("Arc" | "State" | "Data" | "Extension", Some(of)) => {
            Some(format!(": for a shared value write `Component<{of}>`"))
        }
        ("TaskContext", None) => Some(": write `&TaskContext`".to_owned()),
        ("str", None) => Some(": write `&str`".to_owned()),
        ("String", None) => Some(": write `&str` or `String`".to_owned()),
        ("Vec", Some(of)) if of == "u8" => Some(": write `&[u8]` or `Vec<u8>`".to_owned()),
        _ => Some(format!(
            ": for a JSON message write `Json<{0}>`, for a shared value `Component<{0}>`",
            written(inner)
        )),
    }
}
