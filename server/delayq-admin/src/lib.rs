//! The web page of delayq: what is in a store, what is wrong with it, and how to steer it.
//!
//! It is an axum [`Router`](axum::Router), to be mounted in an application or served alone, see
//! [`Admin`]. Everything that a browser needs is in the program: no file, no other site. It reads
//! without scripts; with them it is kept up to date.
//!
//! Whoever changes something does so as an [`Operator`](delayq_ops::Operator), with an entry in the
//! log of actions. Who may do what is a [`Role`].
//!
//! All who look at the same view share one snapshot of it. It is read at most every two seconds,
//! and not at all while nobody looks.

mod action;
mod admin;
mod admit;
mod app;
mod asset;
mod cache;
mod fields;
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
mod svg;
mod tag;
mod viewer;
mod visit;

pub use admin::Admin;
pub use admit::is_same_site;
pub use route::Route;
pub use viewer::{Role, Viewer};
