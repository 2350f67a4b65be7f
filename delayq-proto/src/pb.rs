//! Messages and stubs, as they are generated.

tonic::include_proto!("delayq.v1");

/// The public task service: package `delayq.tasks.v1`.
pub mod tasks {
    tonic::include_proto!("delayq.tasks.v1");
}
