//! Types and their shards: which shards a type has, and how that changes.
//!
//! [`stored`] is the stored form, [`map`] its shards, [`registry`] the hash that holds it,
//! [`placement`] where new shards lie, [`share`] their shares of a bound, [`shards`] the resize,
//! and [`route`] the way of submits through old and new shards.

pub(crate) mod map;
pub(crate) mod placement;
pub(crate) mod registry;
pub(crate) mod route;
pub(crate) mod shards;
pub(crate) mod share;
pub(crate) mod stored;

pub(crate) use map::{Named, ShardMap};
pub(crate) use shards::{Shards, TypeMap};
