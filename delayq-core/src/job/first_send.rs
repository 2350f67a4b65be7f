//! Headers that a job got at its first send, shared with its clones.

use std::sync::{Arc, OnceLock};

use crate::task::Headers;

/// Shared by a job and its clones, so that each send of one of them is the same request. Allocates
/// nothing for a job that is never cloned and gets no such headers.
#[derive(Debug, Default)]
pub(super) struct FirstSend(OnceLock<Arc<OnceLock<Headers>>>);

impl FirstSend {
    pub(super) fn headers(&self, make: impl FnOnce() -> Headers) -> Headers {
        self.shared().get_or_init(make).clone()
    }

    fn shared(&self) -> &Arc<OnceLock<Headers>> {
        self.0.get_or_init(Arc::default)
    }
}

impl Clone for FirstSend {
    fn clone(&self) -> Self {
        Self(OnceLock::from(Arc::clone(self.shared())))
    }
}

/// These headers do not count for the equality of jobs.
impl PartialEq for FirstSend {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for FirstSend {}
