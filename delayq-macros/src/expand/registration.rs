//! Registration of a worker with the linker: `inventory::submit!` and, for a function, a worker
//! type.

use std::time::Duration;

use darling::util::SpannedValue;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Type;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::{conditions, task_type};
use crate::parse::{
    Args, Argument, Function, Item, JsonType, Message, Passed, Recording, Retry, RetryArgs,
};

/// The code generated beside the user's item, in a `const _` so that its names cannot clash with
/// the user's.
pub(super) fn registration(private: &TokenStream, args: &Args, item: &Item) -> TokenStream {
    let (attributes, default_name, worker, build) = match item {
        Item::Implementation(worker) => {
            let built = built(private, &worker.item.self_ty);
            let name = worker.type_name.clone();
            (&worker.item.attrs, name, None, built)
        }
        Item::Function(function) => {
            let components = ComponentFields::of(function);
            let name = function.item.sig.ident.unraw().to_string();
            let worker = function_worker(private, args, function, &components);
            let build = components.build(private);
            (&function.item.attrs, name, Some(worker), build)
        }
    };
    let conditions = conditions(attributes);
    let task_type = task_type(private, args);
    let name = args
        .name
        .as_ref()
        .map_or(default_name, |name| name.to_string());
    let aliases = args.alias.as_ref().map_or(&[][..], |aliases| aliases);
    let options = options(private, args);
    let version = Literal::u32_unsuffixed(args.version());
    let schedule = schedule(private, args);
    let versioned = versioned(private, args);
    quote! {
        #(#conditions)*
        const _: () = {
            #worker

            #private::inventory::submit! {
                #private::WorkerRegistration {
                    task_type: #task_type,
                    name: #name,
                    aliases: &[#(#aliases),*],
                    options: #options,
                    version: #version,
                    schedule: #schedule,
                    build: |__components| {
                        let __worker = #build;
                        ::core::result::Result::Ok(#private::Arc::new(#versioned))
                    },
                }
            }
        };
    }
}

/// The worker, wrapped in a check of message versions if the attribute has a version.
fn versioned(private: &TokenStream, args: &Args) -> TokenStream {
    if args.version.is_none() {
        return quote! { __worker };
    }
    let version = Literal::u32_unsuffixed(args.version());
    let upcast = args.upcast.as_deref().map(|path| {
        quote_spanned! {path.span()=> .upcast(#path) }
    });
    quote! { #private::Versioned::new(__worker, #version) #upcast }
}

/// `ty`, built from the components; an error points at a type that cannot be built.
fn built(private: &TokenStream, ty: &Type) -> TokenStream {
    quote_spanned! {ty.span()=>
        <#ty as #private::FromComponents>::from_components(__components)?
    }
}

/// The components that a function takes: each becomes a field of its worker.
struct ComponentFields<'a> {
    fields: Vec<(Ident, &'a Type)>,
}

impl<'a> ComponentFields<'a> {
    fn of(function: &'a Function) -> Self {
        let types = function
            .arguments
            .iter()
            .filter_map(|argument| match argument {
                Argument::Component(ty) => Some(&**ty),
                _ => None,
            });
        let fields = types.enumerate();
        Self {
            fields: fields
                .map(|(at, ty)| (format_ident!("component_{at}"), ty))
                .collect(),
        }
    }

    fn build(&self, private: &TokenStream) -> TokenStream {
        let fields = self.fields.iter().map(|(name, ty)| {
            let found = quote_spanned! {ty.span()=>
                <#ty as #private::ComponentArgument>::find(__components)?
            };
            quote! { #name: #found }
        });
        quote! { __Worker { #(#fields),* } }
    }
}

/// A `TaskWorker` that calls the function.
fn function_worker(
    private: &TokenStream,
    args: &Args,
    function: &Function,
    components: &ComponentFields<'_>,
) -> TokenStream {
    let (names, types): (Vec<_>, Vec<_>) = components.fields.iter().cloned().unzip();
    let call = call(private, args, function, &names);
    // Has the span of the function's name, so that an error about a future that is not `Send`
    // points there.
    let at = function.item.sig.ident.span();
    let future = quote_spanned! {at=> async move { #call } };
    let here = private.clone().into_iter().map(|mut token| {
        token.set_span(at);
        token
    });
    let here = here.collect::<TokenStream>();
    let boxed = quote_spanned! {at=>
        #here::the_future_of_this_worker_must_be_send(#future)
    };
    quote! {
        struct __Worker { #(#names: #types),* }

        #[#private::async_trait]
        impl #private::TaskWorker for __Worker {
            async fn invoke(
                &self,
                __message: &::core::primitive::str,
                __cx: &#private::TaskContext,
            ) -> #private::TaskResult {
                #private::TaskWorker::invoke_bytes(self, __message.as_bytes(), __cx).await
            }

            // Written like the output of #[async_trait], which itself would point errors at the
            // attribute.
            fn invoke_bytes<'life0, 'life1, 'life2, 'async_trait>(
                &'life0 self,
                __message: &'life1 [::core::primitive::u8],
                __cx: &'life2 #private::TaskContext,
            ) -> #private::TaskFuture<'async_trait>
            where
                'life0: 'async_trait,
                'life1: 'async_trait,
                'life2: 'async_trait,
                Self: 'async_trait,
            {
                #boxed
            }
        }
    }
}

fn call(
    private: &TokenStream,
    args: &Args,
    function: &Function,
    components: &[Ident],
) -> TokenStream {
    let mut components = components.iter();
    let inputs = function.arguments.iter().map(|argument| match argument {
        Argument::Message(message) => read(private, args, message),
        Argument::Context(Passed::Borrowed) => quote! { __cx },
        Argument::Context(Passed::Owned) => quote! { ::core::clone::Clone::clone(__cx) },
        Argument::Component(_) => {
            let name = components.next();
            quote! { ::core::clone::Clone::clone(&self.#name) }
        }
    });
    let name = &function.item.sig.ident;
    let awaited = function.item.sig.asyncness.map(|_| quote! { .await });
    let output = function.output();
    let converted = quote_spanned! {output.span()=>
        <#output as #private::IntoTaskResult>::into_task_result
    };
    quote! { #converted(#name(#(#inputs),*) #awaited) }
}

fn read(private: &TokenStream, args: &Args, message: &Message) -> TokenStream {
    match message {
        Message::Json(json) => read_json(private, args, json),
        Message::Text(Passed::Borrowed) => quote! { #private::text(__message)? },
        Message::Text(Passed::Owned) => {
            quote! { ::core::convert::From::from(#private::text(__message)?) }
        }
        Message::Bytes(Passed::Borrowed) => quote! { __message },
        Message::Bytes(Passed::Owned) => quote! { ::core::convert::From::from(__message) },
    }
}

fn read_json(private: &TokenStream, args: &Args, json: &JsonType) -> TokenStream {
    let (of, written, quoting) = (&json.of, &json.written, args.quote_message);
    if json.renamed {
        let read = quote_spanned! {written.span()=>
            <#written as #private::RenamedArgument>::read
        };
        return quote! { #read(__message, #quoting)? };
    }
    let read = if quoting { "json_quoting" } else { "json" };
    let read = Ident::new(read, of.span());
    let read = quote_spanned! {of.span()=> #private::#read::<#of> };
    let converted = quote_spanned! {written.span()=>
        <#written as #private::JsonArgument<_>>::from_json
    };
    quote! { #converted(#read(__message)?) }
}

/// The given options, applied over the defaults of delayq-core, which this crate does not repeat.
fn options(private: &TokenStream, args: &Args) -> TokenStream {
    let time =
        |time: &Option<SpannedValue<Duration>>| time.as_ref().map(|time| duration(private, **time));
    let retry = args.retry.as_ref();
    let fields = [
        ("retry", retry.map(|retry| retry_policy(private, retry))),
        ("max_releases", number(args.max_releases.as_ref())),
        ("timeout", time(&args.timeout)),
        ("lock", time(&args.lock)),
        ("concurrency", number(args.concurrency.as_ref())),
        (
            "pool",
            args.pool.as_deref().map(|pool| some(quote! { #pool })),
        ),
        ("weight", number(args.weight.as_ref())),
        (
            "delivery",
            variant(&quote! { #private::Delivery }, args.delivery.as_ref()),
        ),
        ("blocking", args.blocking.then(|| quote! { true })),
        ("late", late(private, args)),
        ("fleet", fleet(private, args)),
        ("max_pending", number(args.max_pending.as_ref()).map(some)),
        ("shards", number(args.shards.as_ref()).map(some)),
        (
            "history",
            args.history.as_deref().map(|kept| history(private, *kept)),
        ),
        ("history_retention", time(&args.history_retention).map(some)),
    ];
    given(&quote! { #private::WorkerOptions }, &fields)
}

fn history(private: &TokenStream, recording: Recording) -> TokenStream {
    let kept = match recording {
        Recording::Off => return some(quote! { #private::Recording::Off }),
        Recording::On => quote! { Nothing },
        Recording::First(bytes) => quote! { First(#bytes) },
        Recording::All => quote! { Whole },
    };
    some(quote! { #private::Recording::On(#private::KeptMessage::#kept) })
}

fn schedule(private: &TokenStream, args: &Args) -> TokenStream {
    let none = quote! { ::core::option::Option::None };
    let Some(every) = &args.every else {
        return none;
    };
    let every = every.text();
    let zone = args.zone.as_deref().map(|zone| some(quote! { #zone }));
    let zone = zone.unwrap_or(none);
    some(quote! { #private::WorkerSchedule { every: #every, zone: #zone } })
}

fn number(count: Option<&SpannedValue<u32>>) -> Option<TokenStream> {
    count.map(|count| Literal::u32_unsuffixed(**count).into_token_stream())
}

fn variant(of: &TokenStream, name: Option<&SpannedValue<Ident>>) -> Option<TokenStream> {
    name.map(|name| {
        let name = &**name;
        quote! { #of::#name }
    })
}

#[allow(clippy::needless_pass_by_value, reason = "for Option::map")]
fn some(value: TokenStream) -> TokenStream {
    quote! { ::core::option::Option::Some(#value) }
}

fn fleet(private: &TokenStream, args: &Args) -> Option<TokenStream> {
    let concurrency = number(args.fleet_concurrency.as_ref());
    let rate = args.fleet_rate.as_ref().map(|rate| {
        let starts = Literal::u32_unsuffixed(rate.starts);
        let per = duration(private, rate.per);
        quote! { #private::Rate::new(#starts, #per) }
    });
    if concurrency.is_none() && rate.is_none() {
        return None;
    }
    let option = |value: Option<_>| value.map_or(quote! { ::core::option::Option::None }, some);
    let (concurrency, rate) = (option(concurrency), option(rate));
    Some(quote! { #private::FleetLimits { concurrency: #concurrency, rate: #rate } })
}

fn retry_policy(private: &TokenStream, retry: &Retry) -> TokenStream {
    match retry {
        Retry::Never => quote! { #private::RetryPolicy::NEVER },
        Retry::Policy(policy) => policy_given(private, policy),
    }
}

fn policy_given(private: &TokenStream, policy: &RetryArgs) -> TokenStream {
    let time = |time: Duration| duration(private, time);
    let jitter = policy.jitter.as_ref();
    let fields = [
        ("max_attempts", number(policy.max.as_ref())),
        (
            "backoff",
            variant(&quote! { #private::Backoff }, policy.backoff.as_ref()),
        ),
        ("base", policy.base.as_ref().map(|base| time(**base))),
        ("cap", policy.cap().map(time)),
        (
            "jitter_percent",
            jitter.map(|jitter| Literal::u8_unsuffixed(**jitter).into_token_stream()),
        ),
    ];
    given(&quote! { #private::RetryPolicy }, &fields)
}

/// A value of type `ty` with the given fields, and the type's defaults for the others.
fn given(ty: &TokenStream, fields: &[(&str, Option<TokenStream>)]) -> TokenStream {
    let given = fields.iter().filter_map(|(name, value)| {
        let name = format_ident!("{name}");
        value.as_ref().map(|value| quote! { #name: #value })
    });
    let all_given = fields.iter().all(|(_, value)| value.is_some());
    let rest = (!all_given).then(|| quote! { ..#ty::DEFAULT });
    quote! { #ty { #(#given,)* #rest } }
}

fn late(private: &TokenStream, args: &Args) -> Option<TokenStream> {
    let (action, after) = (args.on_late.as_deref()?, args.late_after.as_deref()?);
    let after = duration(private, *after);
    let spread = args.late_spread.as_deref();
    let spread = spread.map(|span| duration(private, *span));
    let span = spread.map(|span| quote! { (#span) });
    Some(quote! {
        #private::LatePolicy { action: #private::OnLate::#action #span, after: #after }
    })
}

fn duration(private: &TokenStream, duration: Duration) -> TokenStream {
    let seconds = Literal::u64_unsuffixed(duration.as_secs());
    let nanos = Literal::u32_unsuffixed(duration.subsec_nanos());
    quote! { #private::Duration::new(#seconds, #nanos) }
}
