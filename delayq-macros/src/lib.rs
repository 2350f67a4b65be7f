//! The `#[task_worker]` attribute of delayq.
//!
//! Applications use it through `delayq-plugin`, which re-exports it. How it is made: `parse` reads
//! the attribute and the item and does all the rejecting; `expand` writes the code.

mod expand;
mod name;
mod parse;

use proc_macro::TokenStream;

/// Registers a worker: on `impl TaskWorker for X`, or on an `async fn`.
///
/// Registration happens when the program is linked; the plugin finds the worker when it starts. A
/// library of which the program uses nothing is dropped by the linker with its workers: then write
/// `use my_workers as _;`.
///
/// # On an impl
///
/// The async method is written as it is; the macro adds `#[async_trait]`. The worker is built once,
/// by `Default` or by `FromComponents`.
///
/// ```
/// use delayq_plugin::{TaskContext, TaskResult, TaskWorker, task_worker};
///
/// #[derive(Default)]
/// struct CancelOrder;
///
/// #[task_worker(type = "order.cancel")]
/// impl TaskWorker for CancelOrder {
///     async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
///         println!("cancel {message}, attempt {}", cx.attempt());
///         Ok(())
///     }
/// }
/// # let mut workers = delayq_plugin::registry::registered_workers();
/// # let name = ("order.cancel", "CancelOrder");
/// # assert!(workers.any(|worker| (worker.task_type, worker.name) == name));
/// ```
///
/// # On a function
///
/// A free `async fn` takes any of these, in any order:
///
/// | argument | what it is |
/// |---|---|
/// | `Json<T>`, by any name | the message as JSON; one that does not read as `T` goes to dead |
/// | `&str`, `String` | the message as text; one that is not UTF-8 goes to dead |
/// | `&[u8]`, `Vec<u8>` | the message, any bytes |
/// | `&TaskContext`, `TaskContext` | id, attempt, lateness, headers, fence, `cancelled()` |
/// | `Component<T>` | a value that the application shares; a missing one fails `start()` |
///
/// It takes at most one message. The `T` of a component may be a `dyn Trait`. It returns
/// `TaskResult`, `()`, or `Result<(), E>` with an `E` that `?` takes: a `std::error::Error`,
/// `anyhow::Error`, text. Its future is `Send`.
///
/// Beside the function there is a type of the same name, so the task type is written only once:
/// `f::job(&message)` makes the `DelayQueueJob`, and `f::TASK_TYPE` is the type.
///
/// ```
/// use delayq_plugin::{Component, Json, TaskContext, TaskResult, minutes, task_worker};
/// # #[derive(Default)] struct Shop;
/// # impl Shop { async fn cancel(&self, _: u64) -> Result<(), std::io::Error> { Ok(()) } }
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Order {
///     id: u64,
/// }
///
/// #[task_worker(type = "order.cancel")]
/// async fn cancel(
///     Json(order): Json<Order>,
///     cx: &TaskContext,
///     shop: Component<Shop>,
/// ) -> TaskResult {
///     shop.cancel(order.id).await?;
///     println!("cancelled {} ms late", cx.lateness().as_millis());
///     Ok(())
/// }
///
/// # fn main() -> delayq_plugin::Result<()> {
/// let job = cancel::job(&Order { id: 42 })?.id("order-42").after(minutes(30));
/// # let _ = job;
/// # Ok(()) }
/// ```
///
/// A function that blocks its thread is a plain `fn` with the option `blocking`. A function whose
/// type is a pattern takes the task type of the job first: `report::job("report.daily", &message)`.
///
/// # Options
///
/// Each with its default in parentheses:
///
/// - `type = "order.cancel"`: which tasks: 1 to 100 of `A-Z a-z 0-9 . _ - :`; `report.*` for all
///   that begin so; or a constant such as `types::ORDER_CANCEL` (required)
/// - `name = "cancel-v2"`: the stable name that tells the workers of one type apart (the name of
///   the item)
/// - `retry(..)`: see below (5 attempts)
/// - `retry = never`: one attempt
/// - `max_releases = 100`: releases of a task after which the next one sends it to dead (1000)
/// - `timeout = "30s"`: time limit of one attempt (30 minutes)
/// - `lock = "30s"`: how long a crashed process delays its tasks; at least `1s` (30 seconds)
/// - `concurrency = 8`: most tasks of the type at the same time in this process (256)
/// - `pool = "mail"`: the pool of this process whose slots the type shares with others; its size is
///   declared by `.pool("mail", 16)` of the builder (shares with nobody)
/// - `weight = 8`: the type's share of its pool while there is more to do than slots, 1 to 100 (1)
/// - `delivery = at_most_once`: done before it starts: cut off by a crash, but never run twice
///   (`at_least_once`)
/// - `blocking`: runs on the blocking pool
/// - `fleet_concurrency = 10`: most tasks of the type at the same time in all instances together
///   (no limit)
/// - `fleet_rate = "100/s"`: most starts of the type in all instances together; per `s`, `min` or
///   `h` (no limit)
/// - `max_pending = 100_000`: scheduled tasks of the type above which submits are refused (no
///   bound)
/// - `shards = 6`: buckets of the type on Redis, up to 256; never lowered; not with fleet limits
///   (as in the store, at first 1)
/// - `quote_message`: a message that is no `T` in JSON: the error may quote its values, in the log
///   and in `last_error` (kind and place only)
/// - `version = 2`: the version of the messages that it is written for; `job(..)` sends it along. A
///   message of a newer version fails its attempt and waits a minute for a newer instance (1; any
///   version is read)
/// - `upcast = from_older`: a function `fn(u32, serde_json::Value) -> Result<serde_json::Value, E>`
///   that turns a message of an older version into one of this version
/// - `alias = "order.cancel-old"`, or several in brackets: former names of the type, which it
///   serves, too
/// - `on_late = drop`, `late_after = "10m"`: what happens to a task that is later than this: `run`,
///   `drop`, `dead`, or `spread` (`run`)
/// - `late_spread = "30m"`: with `on_late = spread`, the time from now at a random point of which
///   such a task runs
/// - `every = "0 9 * * *"`: a task of this type recurs, with the message `null`: a cron expression
///   of five fields, or an interval such as `"15m"` (it does not recur)
/// - `zone = "Europe/Berlin"`: the time zone of that expression (UTC)
///
/// `retry(max = 5, backoff = exponential, base = "1s", cap = "10m", jitter = 0.1)`: attempts in
/// all, `fixed` or `exponential`, the first wait, the longest wait, and the random part of each.
/// Each has the value shown here when it is left out.
///
/// A duration is text with units: `"500ms"`, `"1m 30s"`, `"2h"`, `"7d"` (a day is 24 hours).
///
/// ```
/// use delayq_plugin::{TaskResult, task_worker};
///
/// #[task_worker(
///     type = "payment.callback",
///     retry(max = 8, base = "2s", cap = "1h"),
///     timeout = "10s",
///     on_late = dead,
///     late_after = "1d"
/// )]
/// async fn callback(message: &str) -> TaskResult {
///     println!("call {message}");
///     Ok(())
/// }
/// ```
///
/// # Mistakes
///
/// are found at compile time, with a line to write instead:
///
/// ```compile_fail
/// # use delayq_plugin::{TaskResult, task_worker};
/// // error: `30` has no unit: write `timeout = "30s"` (units: ms, s, m, h, d)
/// #[task_worker(type = "order.cancel", timeout = 30)]
/// async fn cancel(message: &str) -> TaskResult {
///     # Ok(())
/// }
/// ```
///
/// # What it cannot do
///
/// A generic impl or function is refused: a worker is registered once, for types that are known. A
/// function inside an `impl` block cannot be a worker. The crate must depend on `delayq-plugin`
/// itself, under any name, so that the code that the macro writes can name it.
#[proc_macro_attribute]
pub fn task_worker(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::task_worker(attribute.into(), item.into()).into()
}
