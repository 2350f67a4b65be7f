//! Entrances of the fuzz targets in `proof/fuzz`: what others send, read as the server reads it.
//!
//! Each reads a text and returns it as the server would write it; `None` is a refusal. What was
//! written is to be read as the same again. For fuzz targets alone: nothing here is kept as it is.

pub use crate::http::fuzz::{
    announcement, body, bulk_line, callee_name, cursor, header, listed_state, options, span, time,
    wait,
};
pub use delayq_fronts::fuzz::*;
pub use delayq_service::fuzz::*;
