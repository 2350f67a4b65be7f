//! Messages and stubs, as they are generated. `tests/generated.rs` writes them anew after a change
//! of a `.proto` file, so that a build needs no compiler of these.

include!("../generated/delayq.v1.rs");

/// The public task service: package `delayq.tasks.v1`.
pub mod tasks {
    include!("../generated/delayq.tasks.v1.rs");
}
