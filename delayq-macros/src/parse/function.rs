//! The function form: `async fn f(Json(order): Json<Order>, ..) -> TaskResult`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{
    Error, FnArg, GenericArgument, ItemFn, Pat, PatType, PathArguments, Result, ReturnType, Safety,
    Type, TypeReference,
};

use super::{attribute, bare, is_byte_slice, is_named, last_segment, refuse, written};

/// A function that can be a worker.
pub(crate) struct Function {
    pub(crate) item: ItemFn,
    pub(crate) arguments: Vec<Argument>,
}

/// The source of an argument.
pub(crate) enum Argument {
    Message(Message),
    Context(Passed),
    /// The whole type, `Component<T>`.
    Component(Box<Type>),
}

/// The way the message is parsed.
pub(crate) enum Message {
    Json(Box<JsonType>),
    Text(Passed),
    Bytes(Passed),
}

/// `Json<T>`, as written by the user.
pub(crate) struct JsonType {
    pub(crate) written: Type,
    /// The `T`.
    pub(crate) of: Type,
    /// True if the type has another name, so that the compiler has to check if it means `Json`.
    pub(crate) renamed: bool,
}

/// Tells if the function takes `&T` or `T`.
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

    /// The argument for the message, if the function has one.
    pub(crate) fn message(&self) -> Option<&Message> {
        self.arguments.iter().find_map(|argument| match argument {
            Argument::Message(message) => Some(message),
            _ => None,
        })
    }

    /// The function's return type, written out.
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
        check_pattern(input)?;
        if matches!(argument, Argument::Message(_))
            && let Some(first) = message.replace(&input.ty)
        {
            let renamed = arguments.iter().chain([&argument]).find_map(renamed);
            return Err(renamed.map_or_else(|| second_message(first, &input.ty), unknown));
        }
        arguments.push(argument);
    }
    Ok(arguments)
}

/// The argument's type, unless another argument is already the message.
fn renamed(argument: &Argument) -> Option<&Type> {
    match argument {
        Argument::Message(Message::Json(json)) if json.renamed => Some(&json.written),
        _ => None,
    }
}

/// Refuses a pattern such as `&message: &str`: it removes the reference, and the value behind it is
/// unsized or cannot be moved.
fn check_pattern(input: &PatType) -> Result<()> {
    match &*input.pat {
        Pat::Reference(pattern) if matches!(bare(&input.ty), Type::Reference(_)) => {
            let (name, ty) = (pattern.pat.to_token_stream(), written(&input.ty));
            Err(Error::new_spanned(
                pattern,
                format!("the argument stays a reference: write `{name}: {ty}`"),
            ))
        }
        _ => Ok(()),
    }
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
            let argument = borrowed(&reference.elem).ok_or_else(|| unknown(ty))?;
            check_lifetime(reference)?;
            Ok(argument)
        }
        Type::Path(_) => owned(ty),
        _ => Err(unknown(ty)),
    }
}

fn check_lifetime(reference: &TypeReference) -> Result<()> {
    let Some(lifetime) = reference.lifetime.as_ref().filter(|l| l.ident != "_") else {
        return Ok(());
    };
    let of = written(&reference.elem);
    let (what, owned) = match of.as_str() {
        "str" => ("message", "String"),
        "[u8]" => ("message", "Vec<u8>"),
        _ => ("context", "TaskContext"),
    };
    Err(Error::new_spanned(
        lifetime,
        format!(
            "the {what} is borrowed for one attempt only: write `&{of}`, or `{owned}` to keep it \
             for longer"
        ),
    ))
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
        ("Json", Some(of)) => json(ty, of, false),
        ("Component", Some(of)) => component(ty, of),
        (name @ ("Json" | "Component"), None) => Err(Error::new_spanned(
            ty,
            format!(
                "say of which type: write for example `{name}<{}>`",
                example(name)
            ),
        )),
        (name, Some(of)) if !WRAPPERS.contains(&name) => json(ty, of, true),
        _ => Err(unknown(ty)),
    }
}

/// Types `X<T>` that are certainly not `Json<T>` imported under another name.
const WRAPPERS: [&str; 15] = [
    "Arc",
    "Box",
    "Cow",
    "Data",
    "Extension",
    "HashSet",
    "Mutex",
    "Option",
    "Query",
    "Rc",
    "Result",
    "RwLock",
    "State",
    "Vec",
    "VecDeque",
];

fn json(ty: &Type, of: &Type, renamed: bool) -> Result<Argument> {
    if let Type::Reference(reference) = bare(of)
        && let Some(lifetime) = &reference.lifetime
        && lifetime.ident == "static"
    {
        let of = written(&reference.elem);
        return Err(Error::new_spanned(
            lifetime,
            format!(
                "the message is borrowed for one attempt only: write `&{of}`, or an owned type"
            ),
        ));
    }
    let (written, of) = (ty.clone(), of.clone());
    let json = JsonType {
        written,
        of,
        renamed,
    };
    Ok(Argument::Message(Message::Json(Box::new(json))))
}

fn component(ty: &Type, of: &Type) -> Result<Argument> {
    let Some(segment) = last_segment(of) else {
        return Ok(Argument::Component(Box::new(ty.clone())));
    };
    let inner = parameter(&segment.arguments).map_or_else(|| "T".to_owned(), written);
    let instead = match segment.ident.to_string().as_str() {
        "Rc" => format!("`Component<{inner}>`, which is shared as in an `Arc`"),
        "RefCell" | "Cell" => format!("`Component<std::sync::Mutex<{inner}>>`"),
        _ => return Ok(Argument::Component(Box::new(ty.clone()))),
    };
    Err(Error::new_spanned(
        of,
        format!(
            "workers run on many threads, and `{}` stays on one: write {instead}",
            written(of)
        ),
    ))
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

/// A guess at what the user meant.
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
        (name, Some(of)) if !WRAPPERS.contains(&name) => Some(format!(
            ": for a JSON message write `Json<{0}>`, for a shared value `Component<{0}>`; if `{name}` is \
             `Component`, imported by another name, write `Component<{of}>`",
            written(inner)
        )),
        _ => Some(format!(
            ": for a JSON message write `Json<{0}>`, for a shared value `Component<{0}>`",
            written(inner)
        )),
    }
}
