//! The checker: holds the history of a run against each promise.
