#![doc = include_str!("../README.md")]

mod gate;
mod plugin;
mod section;
mod shutdown;
mod start;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/summer.md")]
mod guide {}

pub use plugin::DelayqPlugin;
