//! Types and their shards: the shards of a type, and their changes.
//!
//! [`stored`] is the stored format, [`map`] its shards, [`registry`] the hash that holds it,
//! [`placement`] the choice of slots for new shards, [`share`] their shares of `max_pending`,
//! [`shards`] the resize, and [`route`] the routing of submits through old and new shards.

pub(crate) mod map;
pub(crate) mod placement;
pub(crate) mod registry;
pub(crate) mod route;
pub(crate) mod shards;
pub(crate) mod share;
pub(crate) mod stored;

pub(crate) use map::{Named, ShardMap};
pub(crate) use shards::{Shards, TypeMap};
