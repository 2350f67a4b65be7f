//! The impl form: `impl TaskWorker for X { async fn invoke(..) .. }`.

use syn::{
    Error, FnArg, GenericArgument, ImplItem, ImplItemFn, ItemImpl, Path, PathArguments, Receiver,
    ReceiverKind, Result, ReturnType, Signature, Type,
};

use super::{attribute, bare, is_byte_slice, is_named, last_segment, written};

const INVOKE: &str = "async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult";
const INVOKE_BYTES: &str =
    "async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult";

/// An impl block that can be a worker.
pub(crate) struct Implementation {
    pub(crate) item: ItemImpl,
    /// The name of the type, without its path and parameters.
    pub(crate) type_name: String,
}

impl Implementation {
    pub(super) fn new(item: ItemImpl) -> Result<Self> {
        check_trait(&item)?;
        if !item.generics.params.is_empty() {
            return Err(Error::new_spanned(
                &item.generics,
                "a worker is registered once, for one type: write the type instead of the parameter, \
                 as in `impl TaskWorker for Mail<Smtp>`",
            ));
        }
        if let Some(attribute) = attribute(&item.attrs, "async_trait") {
            // #[async_trait] without arguments means the same; #[async_trait(?Send)] does not.
            if let syn::Meta::List(list) = &attribute.meta {
                return Err(Error::new_spanned(
                    &list.tokens,
                    "a worker runs on any thread, so its future must be Send: remove this \
                     #[async_trait(..)]; #[task_worker] adds its own",
                ));
            }
        }
        check_methods(&item)?;
        let Some(segment) = last_segment(&item.self_ty) else {
            return Err(Error::new_spanned(
                &item.self_ty,
                "a worker is a type of its own: write a struct and `impl TaskWorker for` it",
            ));
        };
        let type_name = segment.ident.to_string();
        Ok(Self { item, type_name })
    }
}

/// True if `item` is written as an implementation of `TaskWorker`, correct or not.
pub(crate) fn is_worker_impl(item: &ItemImpl) -> bool {
    is_task_worker(item.trait_.as_ref().map(|(path, _)| path))
}

fn is_task_worker(path: Option<&Path>) -> bool {
    path.and_then(|path| path.segments.last())
        .is_some_and(|segment| segment.ident == "TaskWorker")
}

fn check_trait(item: &ItemImpl) -> Result<()> {
    let ty = written(&item.self_ty);
    let Some((path, _)) = &item.trait_ else {
        return Err(Error::new_spanned(
            &item.self_ty,
            format!("write `impl TaskWorker for {ty}`: only that block is a worker"),
        ));
    };
    if is_task_worker(Some(path)) {
        return Ok(());
    }
    Err(Error::new_spanned(
        path,
        format!("#[task_worker] goes on `impl TaskWorker for {ty}`, not on another trait's impl"),
    ))
}

fn check_methods(item: &ItemImpl) -> Result<()> {
    let mut has_invoke = false;
    for method in methods(item) {
        has_invoke |= method.sig.ident == "invoke";
        if let Some(error) = wrong_method(method) {
            return Err(error);
        }
    }
    if has_invoke {
        return Ok(());
    }
    let message = format!("the worker has no `invoke`: add `{INVOKE} {{ .. }}`");
    Err(Error::new_spanned(&item.self_ty, message))
}

fn methods(item: &ItemImpl) -> impl Iterator<Item = &ImplItemFn> {
    item.items.iter().filter_map(|item| match item {
        ImplItem::Fn(method) => Some(method),
        _ => None,
    })
}

/// The mistake in the signature of `method`, if it is a method of `TaskWorker`.
pub(crate) fn wrong_method(method: &ImplItemFn) -> Option<Error> {
    let sig = &method.sig;
    let (right, binary) = match sig.ident.to_string().as_str() {
        "invoke" => (INVOKE, false),
        "invoke_bytes" => (INVOKE_BYTES, true),
        _ => return None,
    };
    if is_boxed(sig) {
        return None;
    }
    if sig.asyncness.is_none() {
        let what = format!("`{}` is async: write `{right}`", sig.ident);
        return Some(Error::new(sig.fn_token.span, what));
    }
    if let Some(receiver) = sig.receiver().filter(|receiver| is_mutable(receiver)) {
        return Some(Error::new_spanned(
            receiver,
            "a worker runs many tasks at the same time: write `&self`, and keep what changes in a \
             Mutex or an atomic",
        ));
    }
    let name = &sig.ident;
    let what = if !takes_self(sig) {
        format!("`{name}` takes `&self` and no generic parameters")
    } else if !takes_message(sig, binary) {
        format!(
            "`{name}` takes the message and then the context{}",
            hint(sig)
        )
    } else if !returns_result(&sig.output) {
        format!("`{name}` returns `TaskResult`, to which `?` converts every `std::error::Error`")
    } else {
        return None;
    };
    Some(Error::new_spanned(sig, format!("{what}: write `{right}`")))
}

/// A hint for users who know the function form.
fn hint(sig: &Signature) -> &'static str {
    let is_json = |input: &FnArg| match input {
        FnArg::Typed(input) => is_named(&input.ty, "Json"),
        FnArg::Receiver(_) => false,
    };
    if sig.inputs.iter().any(is_json) {
        " (`Json` is taken by worker functions; here use `Json::from_message(message.as_bytes())?`)"
    } else {
        ""
    }
}

/// True if an #[`async_trait`] above has already rewritten the method, which its lifetime shows.
fn is_boxed(sig: &Signature) -> bool {
    let mut lifetimes = sig.generics.lifetimes();
    lifetimes.any(|parameter| parameter.lifetime.ident == "async_trait")
}

fn is_mutable(receiver: &Receiver) -> bool {
    receiver.mutability.is_some() || matches!(receiver.kind, ReceiverKind::Reference(_, _, Some(_)))
}

fn takes_self(sig: &Signature) -> bool {
    let kind = sig.receiver().map(|receiver| &receiver.kind);
    matches!(kind, Some(ReceiverKind::Reference(..))) && sig.generics.params.is_empty()
}

/// True if a message and a context follow `&self`. The context may be an alias, which the compiler
/// checks.
fn takes_message(sig: &Signature, binary: bool) -> bool {
    let mut types = sig.inputs.iter().skip(1).map(referent);
    let (message, cx, end) = (types.next(), types.next(), types.next());
    let (Some(Some(message)), Some(Some(cx)), None) = (message, cx, end) else {
        return false;
    };
    let fits = if binary {
        is_byte_slice(message)
    } else {
        is_named(message, "str")
    };
    fits && last_segment(cx).is_some_and(|segment| segment.ident != "str")
}

/// The `T` of an argument `&T`.
fn referent(input: &FnArg) -> Option<&Type> {
    let FnArg::Typed(input) = input else {
        return None;
    };
    match bare(&input.ty) {
        Type::Reference(reference)
            if reference.mutability.is_none()
                && reference.lifetime.as_ref().is_none_or(|l| l.ident == "_") =>
        {
            Some(&reference.elem)
        }
        _ => None,
    }
}

/// True if this can be `TaskResult`. An alias is left to the compiler. A `Result` is examined here,
/// because the compiler would explain a wrong error type in terms of boxed futures.
fn returns_result(output: &ReturnType) -> bool {
    let ReturnType::Type(_, ty) = output else {
        return false;
    };
    let Some(segment) = last_segment(ty) else {
        return false;
    };
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return true;
    };
    let is_task_error = |argument: &GenericArgument| matches!(argument, GenericArgument::Type(error) if is_named(error, "TaskError"));
    segment.ident != "Result" || arguments.args.last().is_some_and(is_task_error)
}
