//! Where the attribute may stand: beside other attributes, in modules, in functions, in macros.

use async_trait::async_trait;
use delayq_core::registry::registered_workers;
use delayq_plugin::{Component, Json, TaskContext, TaskResult, TaskWorker, task_worker};

use crate::tools::{Seen, run, worker};

/// Above other attributes.
#[task_worker(type = "place.above")]
#[allow(clippy::similar_names, reason = "another attribute")]
#[tracing::instrument(skip(seen))]
async fn above(message: &str, seen: Component<Seen>) -> TaskResult {
    seen.push(message);
    Ok(())
}

#[allow(clippy::similar_names, reason = "another attribute")]
#[tracing::instrument(skip(seen))]
/// Below other attributes.
#[task_worker(type = "place.below")]
async fn below(message: &str, seen: Component<Seen>) -> TaskResult {
    seen.push(message);
    Ok(())
}

#[derive(Default)]
struct Worker;

/// Takes a type of the name that one would choose for what the macro writes.
#[task_worker(type = "place.shadow")]
async fn shadow(_worker: Component<Seen>, message: Json<Option<Worker>>) -> TaskResult {
    let _: Option<Worker> = message.0;
    Ok(())
}

impl<'de> serde::Deserialize<'de> for Worker {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <()>::deserialize(from).map(|()| Self)
    }
}

#[allow(clippy::missing_docs_in_private_items, reason = "stands above")]
#[task_worker(type = "place.impl-above")]
/// Documented.
#[cfg(test)]
impl TaskWorker for Worker {
    #[tracing::instrument(skip(self, cx))]
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        let _ = (message, cx);
        Ok(())
    }
}

#[derive(Default)]
struct Boxed;

// Superfluous, but it means the same: above the macro it has rewritten the method already.
#[async_trait]
#[task_worker(type = "place.async-trait-above")]
impl TaskWorker for Boxed {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

#[derive(Default)]
struct BoxedBelow;

#[task_worker(type = "place.async-trait-below")]
#[async_trait]
impl TaskWorker for BoxedBelow {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

#[derive(Default)]
struct TwoTypes;

#[task_worker(type = "place.first")]
#[task_worker(type = "place.second")]
impl TaskWorker for TwoTypes {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

#[derive(Default)]
struct OfType<T>(std::marker::PhantomData<T>);

#[task_worker(type = "place.generic-type")]
impl TaskWorker for self::OfType<u8> {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

#[task_worker(type = "place.cfg-below")]
#[cfg(any())]
async fn compiled_out(message: NoSuchType) {}

#[cfg(any())]
#[task_worker(type = "place.cfg-above")]
async fn compiled_out(message: NoSuchType) {}

#[cfg(any())]
struct Absent;

#[task_worker(type = "place.cfg-impl")]
#[cfg(any())]
impl TaskWorker for Absent {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

mod inner {
    pub(crate) mod deep {
        use crate::tools::Seen;

        /// Seen from outside with its constructor, by one `use`.
        #[delayq_plugin::task_worker(type = "place.module")]
        pub(in crate::places) async fn send_mail(
            message: &str,
            seen: delayq_plugin::Component<Seen>,
        ) -> delayq_plugin::TaskResult {
            seen.push(message);
            Ok(())
        }

        #[delayq_plugin::task_worker(type = "place.raw")]
        pub(super) async fn r#type() {}
    }

    pub(super) fn type_of_raw() -> &'static str {
        deep::r#type::TASK_TYPE
    }
}

use inner::deep::send_mail;

/// Familiar names have other meanings here.
#[allow(dead_code, reason = "they are there to be shadowed")]
mod shadowed {
    struct Ok;
    struct Result;
    struct Option;
    struct Arc;
    struct Duration;
    #[allow(non_camel_case_types, reason = "to shadow the primitive")]
    struct u8;

    #[::delayq_plugin::task_worker(type = "place.shadowed", timeout = "1s", retry(max = 2))]
    async fn shadowed(
        message: &str,
        seen: ::delayq_plugin::Component<crate::tools::Seen>,
    ) -> ::delayq_plugin::TaskResult {
        seen.push(message);
        ::std::result::Result::Ok(())
    }
}

macro_rules! text_worker {
    ($task_type:literal, $name:ident, $message:ty, $context:ty, $timeout:expr) => {
        #[task_worker(type = $task_type, timeout = $timeout)]
        async fn $name(message: $message, _cx: &$context, seen: Component<Seen>) -> TaskResult {
            seen.push(message);
            Ok(())
        }
    };
}
text_worker!("place.macro", in_a_macro, &str, TaskContext, "9s");

#[tokio::test]
async fn a_worker_is_registered_wherever_it_stands() {
    for task_type in ["above", "below", "module", "shadowed", "macro"] {
        let (result, seen) = run(&format!("place.{task_type}"), b"text").await;
        assert!(result.is_ok(), "{result:?}");
        assert_eq!(seen, ["text"], "{task_type}");
    }
    let others = [
        "shadow",
        "impl-above",
        "async-trait-above",
        "async-trait-below",
        "first",
        "second",
        "generic-type",
        "raw",
    ];
    for task_type in others {
        let (result, _) = run(&format!("place.{task_type}"), b"null").await;
        assert!(result.is_ok(), "{task_type}: {result:?}");
    }
    assert_eq!(worker("place.macro").options.timeout.as_secs(), 9);
}

#[test]
fn a_worker_is_named_after_its_item() {
    assert_eq!(worker("place.above").name, "above");
    assert_eq!(worker("place.raw").name, "type");
    assert_eq!(worker("place.generic-type").name, "OfType");
    assert_eq!(inner::type_of_raw(), "place.raw");
}

#[test]
fn what_is_compiled_out_is_not_registered() {
    let mut types = registered_workers().map(|worker| worker.task_type);
    assert!(!types.any(|task_type| task_type.starts_with("place.cfg")));
}

#[tokio::test]
async fn one_use_brings_the_function_and_its_constructor() {
    let seen = Component::new(std::sync::Arc::new(Seen::default()));
    assert!(send_mail("text", seen).await.is_ok());
    assert!(send_mail::job("text").is_ok());
}

#[tokio::test]
async fn a_worker_may_stand_in_a_function() {
    #[derive(Default)]
    struct Local;

    #[task_worker(type = "place.local-impl")]
    impl TaskWorker for Local {
        async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
            Ok(())
        }
    }

    #[task_worker(type = "place.local")]
    async fn local(message: &str, seen: Component<Seen>) -> TaskResult {
        seen.push(message);
        Ok(())
    }

    assert_eq!(run(local::TASK_TYPE, b"text").await.1, ["text"]);
    assert!(run("place.local-impl", b"text").await.0.is_ok());
}
