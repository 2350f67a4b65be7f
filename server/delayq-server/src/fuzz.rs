//! Entry points of the fuzz targets in `proof/fuzz`. They parse input from others as the server
//! does.
//!
//! Each entry point parses a text and returns it in the server's own form, or `None` if the text is
//! refused. Parsing the returned form must give the same result. For fuzz targets only; not a
//! stable interface.

pub use crate::http::fuzz::{
    announcement, body, bulk_line, callee_name, cursor, header, listed_state, options, span, time,
    wait,
};
pub use delayq_fronts::fuzz::*;
pub use delayq_service::fuzz::*;
