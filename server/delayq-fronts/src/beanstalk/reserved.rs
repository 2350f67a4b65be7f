//! A job on its way to the client that has reserved it.

/// A job on its way to the client that has reserved it.
#[derive(Clone, Debug)]
pub(super) struct Reserved {
    pub(super) number: u64,
    pub(super) body: Vec<u8>,
}
