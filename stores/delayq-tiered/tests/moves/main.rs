//! Moves that are broken off, and stores that are away: each task runs once, and not early.

mod by_id;
mod killed;
mod outages;
mod stage;
