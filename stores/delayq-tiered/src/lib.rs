//! The cold tier of delayq: a store over two stores.
//!
//! ```text
//!                      due within the horizon
//!   submit ------------------------------------------> hot <---- claim, settle, extend
//!      |                                                ^
//!      |  due beyond the horizon                        |  a minute ahead of its due time
//!      '------------------------> cold -- promoter -----'
//! ```
//!
//! A far task is an ordinary task of cold, with the same type and id. Its due time there is
//! [`LEAD`] earlier than its real one. To promote it is to claim it in cold, to submit it to hot,
//! and to settle it in cold. So the locks of cold decide which instance moves a task, and a task
//! whose move was broken off is moved again once its lock has expired.
//!
//! The floors, each using only those above it: `options` · `far` (a task in its form for cold, and
//! back) · `counts`, `marks`, `trouble` (what is known of cold) · `pair` (whose it is) · `parts`
//! (the two stores) · `late` (a cold store that is opened later) · `change` (by id) · `submit` ·
//! `operate`, `ends` · `promoter` · `store`.

mod change;
mod counts;
mod ends;
mod far;
mod late;
mod marks;
mod operate;
mod options;
mod pair;
mod parts;
mod promoter;
mod store;
mod submit;
mod trouble;

pub use crate::far::accepted_at;
pub use crate::late::{Later, Opener, Opening};
pub use crate::options::{DEFAULT_HORIZON, LEAD, MIN_HORIZON, TierOptions};
pub use crate::pair::{check_alone, check_pair, mark_pair};
pub use crate::store::TieredStore;
