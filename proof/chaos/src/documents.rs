//! The pages that speak of this package, so that every Rust snippet in them is compiled as a doc
//! test.

#[doc = include_str!("../../../docs/guide/chaos.md")]
mod chaos {}

#[doc = include_str!("../../../docs/reliability.md")]
mod reliability {}
