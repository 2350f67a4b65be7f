//! Generated messages and stubs. After a change of a `.proto` file, `tests/generated.rs` generates
//! them again. A build therefore needs no protobuf compiler.

include!("../generated/delayq.v1.rs");

/// The public task service: package `delayq.tasks.v1`.
pub mod tasks {
    include!("../generated/delayq.tasks.v1.rs");
}
