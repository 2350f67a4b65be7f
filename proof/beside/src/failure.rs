//! Why a run fails.

use std::error::Error;

/// Something went wrong, or a promise was broken.
pub(crate) type Failure = Box<dyn Error>;
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Fails with the text unless `holds`.
pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(otherwise().into())
    }
}
