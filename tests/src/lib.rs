//! What the tests of delayq share: the store contract suite, the stores it runs on, real Redis servers
//! (alone, watched by sentinels, in a cluster), a plugin on virtual time, and stores that fail on
//! purpose.
//!
//! The suite is made to be used on a third party's store, too: see [`contract`].

pub mod cluster_set;
pub mod contract;
pub mod faulty;
pub mod instance;
pub mod network;
pub mod paused_clock;
pub mod question;
pub mod redis_server;
pub mod redis_user;
pub mod rig;
pub mod sentinel_set;
pub mod stores;
