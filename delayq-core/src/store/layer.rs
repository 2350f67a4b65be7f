//! A store wrapped around a store: the only place that forwards the methods of a store.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    Bucket, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Concern, Durability,
    ExtendOutcome, SettleOutcome, Settlement, SqlPlace, Store, SubmitOutcome, Wakeups,
};
use crate::chronicle::{Action, Chronicle, LoggedAction, Spell, Step};
use crate::documents::{Documents, Expected, Folder, WriteOutcome};
use crate::error::Result;
use crate::history::{EndPosition, Ends, EndsStatus, WaitingEnd};
use crate::job::{NewTask, When};
use crate::name::{Namespace, TaskId, TaskType};
use crate::operate::{AuditReport, Cursor, DeadFilter, Operate, Page, TypeSettings, TypeStats};
use crate::presence::{InstanceId, InstanceInfo, Presence};
use crate::replies::Replies;
use crate::reply::{KeptReply, Reply};
use crate::state::TaskState;
use crate::task::{Headers, Lock, TaskInfo};
use crate::time::Timestamp;

/// The calls of a store, by trait, except `submit` and `update_with`. A row names the call and has
/// the signature of the method, whose answer is a `Result`. A new method is a new row.
macro_rules! calls {
    ($make:ident) => {
        $make! {
            Store {
                Buckets: buckets(task_type: &TaskType) -> Vec<Bucket>;
                Claim: claim(bucket: &Bucket, request: &ClaimRequest) -> Claimed;
                Settle: settle(bucket: &Bucket, settlements: Vec<Settlement>)
                    -> Vec<SettleOutcome>;
                Extend: extend(bucket: &Bucket, locks: Vec<Lock>, lock_for: Duration)
                    -> Vec<ExtendOutcome>;
                ExtendAlone: extend_alone(bucket: &Bucket, lock: &Lock, lock_for: Duration)
                    -> ExtendOutcome;
                NoteFailure: note_failure(bucket: &Bucket, lock: &Lock, error: &str) -> bool;
                Cancel: cancel(task_type: &TaskType, id: &TaskId) -> CancelOutcome;
                Reschedule: reschedule(task_type: &TaskType, id: &TaskId, when: When)
                    -> ChangeOutcome;
                Update: update(task_type: &TaskType, id: &TaskId, message: Vec<u8>)
                    -> ChangeOutcome;
                Find: find(task_type: &TaskType, id: &TaskId) -> Option<TaskInfo>;
                Check: check() -> ();
                Concerns: concerns() -> Vec<Concern>;
            }
            Operate {
                Types: types() -> Vec<TaskType>;
                RegisterType: register_type(task_type: &TaskType) -> ();
                ConfigureType: configure_type(task_type: &TaskType, settings: &TypeSettings) -> ();
                Stats: stats(task_type: &TaskType) -> TypeStats;
                List: list(
                    task_type: &TaskType, state: TaskState, cursor: Option<&Cursor>, limit: usize
                ) -> Page;
                DueHistogram: due_histogram(
                    task_type: &TaskType, from: Timestamp, to: Timestamp, steps: usize
                ) -> Vec<u64>;
                RequeueDead: requeue_dead(
                    task_type: &TaskType, filter: &DeadFilter, interval: Duration
                ) -> Vec<TaskId>;
                DiscardDead: discard_dead(task_type: &TaskType, filter: &DeadFilter)
                    -> Vec<TaskId>;
                Pause: pause(task_type: &TaskType, until: Option<Timestamp>) -> ();
                Resume: resume(task_type: &TaskType) -> ();
                Purge: purge(task_type: &TaskType, state: TaskState) -> u64;
                DropType: drop_type(task_type: &TaskType) -> ();
                Audit: audit(task_type: &TaskType, repair: bool) -> AuditReport;
            }
            Presence {
                Announce: announce(instance: &InstanceInfo, holds: Duration) -> ();
                Withdraw: withdraw(id: &InstanceId) -> ();
                Instances: instances() -> Vec<InstanceInfo>;
            }
            Chronicle {
                AddFigures: add_figures(task_type: &TaskType, minutes: &[Spell]) -> ();
                Figures: figures(task_type: &TaskType, step: Step, since: Timestamp) -> Vec<Spell>;
                LogAction: log_action(action: &Action) -> ();
                Actions: actions(before: Option<u64>, limit: usize) -> Vec<LoggedAction>;
            }
            Documents {
                Folder: folder(folder: &str) -> Folder;
                FolderRevision: folder_revision(folder: &str) -> u64;
                WriteDocument: write_document(
                    folder: &str, name: &str, body: &str, expected: Expected
                ) -> WriteOutcome;
                RemoveDocument: remove_document(folder: &str, name: &str) -> bool;
            }
            Replies {
                KeepReply: keep_reply(task_type: &TaskType, lock: &Lock, reply: &Reply) -> bool;
                Reply: reply(task_type: &TaskType, id: &TaskId) -> Option<KeptReply>;
            }
            Ends {
                Ends: ends(limit: usize) -> Vec<WaitingEnd>;
                RemoveEnds: remove_ends(positions: &[EndPosition]) -> u64;
                EndsStatus: ends_status() -> EndsStatus;
            }
        }
    };
}

/// Generates the names of the calls.
macro_rules! names {
    ($($of:ident { $($call:ident: $name:ident $args:tt -> $answer:ty;)+ })+) => {
        /// A call of a store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum StoreCall {
            /// [`Store::submit`].
            Submit,
            $($(#[doc = concat!("[`", stringify!($of), "::", stringify!($name), "`].")] $call,)+)+
        }

        impl StoreCall {
            /// All calls, in the order of their numbers.
            pub const ALL: &'static [Self] = &[Self::Submit, $($(Self::$call,)+)+];

            /// The name of its method; for `update_with` that is `update`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    Self::Submit => "submit",
                    $($(Self::$call => stringify!($name),)+)+
                }
            }
        }
    };
}

/// Generates the methods of a layer.
macro_rules! methods {
    ($($of:ident {
        $($call:ident: $name:ident($($arg:ident: $ty:ty),*) -> $answer:ty;)+
    })+) => {
        $($(
            #[doc = concat!("[`", stringify!($of), "::", stringify!($name), "`]")]
            /// of the inner store, within [`around`](Self::around).
            fn $name(&self, $($arg: $ty),*) -> impl Future<Output = Result<$answer>> + Send {
                async move { self.around(StoreCall::$call, self.inner().$name($($arg),*)).await }
            }
        )+)+
    };
}

/// Implements the store traits for a layer.
macro_rules! stores {
    (Store {
        $($own_call:ident: $own:ident($($own_arg:ident: $own_ty:ty),*) -> $own_answer:ty;)+
    } $($of:ident {
        $($call:ident: $name:ident($($arg:ident: $ty:ty),*) -> $answer:ty;)+
    })+) => {
        #[async_trait]
        impl<L: Layer> Store for L {
            fn name(&self) -> String {
                Layer::name(self)
            }

            fn namespace(&self) -> Option<&Namespace> {
                self.inner().namespace()
            }

            fn sql_place(&self) -> Option<SqlPlace> {
                Layer::sql_place(self)
            }

            fn has_shards(&self) -> bool {
                self.inner().has_shards()
            }

            fn durability(&self) -> Durability {
                Layer::durability(self)
            }

            fn wakeups(&self) -> Wakeups {
                Layer::wakeups(self)
            }

            async fn close(&self) {
                Layer::close(self).await;
            }

            async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
                Layer::submit(self, tasks).await
            }

            async fn update_with(
                &self,
                task_type: &TaskType,
                id: &TaskId,
                message: Vec<u8>,
                headers: &Headers,
            ) -> Result<ChangeOutcome> {
                Layer::update_with(self, task_type, id, message, headers).await
            }

            $(async fn $own(&self, $($own_arg: $own_ty),*) -> Result<$own_answer> {
                Layer::$own(self, $($own_arg),*).await
            })+
        }

        $(#[async_trait]
        impl<L: Layer> $of for L {
            $(async fn $name(&self, $($arg: $ty),*) -> Result<$answer> {
                Layer::$name(self, $($arg),*).await
            })+
        })+
    };
}

calls!(names);

/// A store wrapped around a store. It is a store itself: each call goes to the inner one, within
/// [`around`](Self::around). A layer that has to see the arguments or the answer of a call
/// overrides its method; `around` is not called then.
///
/// ```
/// use std::sync::Arc;
///
/// use delayq_core::memory::MemoryStore;
/// use delayq_core::store::{Layer, StoreCall};
/// use delayq_core::{Operate, Result, Store};
///
/// /// Prints the name of each call.
/// #[derive(Debug)]
/// struct Printed(Arc<dyn Store>);
///
/// impl Layer for Printed {
///     fn inner(&self) -> &dyn Store {
///         &*self.0
///     }
///
///     async fn around<T: Send>(
///         &self,
///         call: StoreCall,
///         answer: impl Future<Output = Result<T>> + Send,
///     ) -> Result<T> {
///         println!("{}", call.name());
///         answer.await
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let store: Arc<dyn Store> = Arc::new(Printed(Arc::new(MemoryStore::default())));
/// store.types().await?;
/// # Ok(())
/// # }
/// ```
pub trait Layer: Debug + Send + Sync + 'static {
    /// The store inside.
    fn inner(&self) -> &dyn Store;

    /// Wraps each call. `answer` is the call of the inner store, which is not sent before it is
    /// polled.
    fn around<T: Send>(
        &self,
        call: StoreCall,
        answer: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        let _ = call;
        answer
    }

    /// [`Store::name`] of the inner store.
    fn name(&self) -> String {
        self.inner().name()
    }

    /// [`Store::durability`] of the inner store.
    fn durability(&self) -> Durability {
        self.inner().durability()
    }

    /// [`Store::close`] of the inner store.
    fn close(&self) -> impl Future<Output = ()> + Send {
        async move { self.inner().close().await }
    }

    /// [`Store::sql_place`] of the inner store.
    fn sql_place(&self) -> Option<SqlPlace> {
        self.inner().sql_place()
    }

    /// [`Store::wakeups`] of the inner store.
    fn wakeups(&self) -> Wakeups {
        self.inner().wakeups()
    }

    /// [`Store::submit`] of the inner store, within [`around`](Self::around). An error of `around`
    /// becomes the result of each task.
    fn submit(
        &self,
        tasks: Vec<NewTask>,
    ) -> impl Future<Output = Vec<Result<SubmitOutcome>>> + Send {
        async move {
            let count = tasks.len();
            let submit = async { Ok(self.inner().submit(tasks).await) };
            let results = self.around(StoreCall::Submit, submit).await;
            results.unwrap_or_else(|error| vec![Err(error); count])
        }
    }

    /// [`Store::update_with`] of the inner store, within [`around`](Self::around).
    fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> impl Future<Output = Result<ChangeOutcome>> + Send {
        async move {
            let update = self.inner().update_with(task_type, id, message, headers);
            self.around(StoreCall::Update, update).await
        }
    }

    calls!(methods);
}

calls!(stores);

#[cfg(test)]
mod tests {
    use super::*;

    /// Methods that are written by hand, outside the table.
    const OTHERS: [&str; 8] = [
        "name",
        "namespace",
        "sql_place",
        "has_shards",
        "durability",
        "wakeups",
        "close",
        "update_with",
    ];

    #[test]
    fn every_method_of_a_store_is_passed_on() {
        // A method with a default body in its trait would compile without being forwarded.
        for source in [
            include_str!("../store.rs"),
            include_str!("../operate.rs"),
            include_str!("../presence.rs"),
            include_str!("../chronicle.rs"),
            include_str!("../documents.rs"),
            include_str!("../replies.rs"),
            include_str!("../history/ends.rs"),
        ] {
            let (_, contract) = source.split_once("#[async_trait]\npub trait").unwrap();
            let (contract, _) = contract.split_once("\n}\n").unwrap();
            for declared in contract.split("fn ").skip(1) {
                let (name, _) = declared.split_once('(').unwrap();
                let is_call = StoreCall::ALL.iter().any(|call| call.name() == name);
                assert!(is_call || OTHERS.contains(&name), "{name}");
            }
        }
    }
}
