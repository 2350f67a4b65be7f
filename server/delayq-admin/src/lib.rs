//! The web page of delayq: shows and controls the contents of a store, and reports its problems.
//!
//! The page is an axum [`Router`](axum::Router), to be mounted in an application or served alone;
//! see [`Admin`]. All its files are embedded in the program, and it loads nothing from other sites.
//! It works without scripts; with scripts it updates itself.
//!
//! Changes go through an [`Operator`](delayq_ops::Operator), which writes them to the log of
//! actions. A [`Role`] decides what a viewer may do.
//!
//! All viewers of the same view share one snapshot. It is read at most every two seconds, and not
//! at all while nobody looks.

mod action;
mod admin;
mod admit;
mod app;
mod asset;
mod cache;
mod fields;
mod figure;
mod flash;
mod job;
mod jobs;
mod key;
mod look;
mod message;
mod moment;
mod notice;
mod page;
mod route;
mod said;
mod shell;
mod sort;
mod surroundings;
mod svg;
mod tag;
mod viewer;
mod visit;

pub use admin::Admin;
pub use asset::{SHEET, THEME_SCRIPT};
pub use route::Route;
pub use surroundings::Surroundings;
pub use viewer::{Role, Viewer};
