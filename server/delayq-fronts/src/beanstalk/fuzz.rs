//! Entrance of the fuzz target: what a client sends.

use super::input::Input;

/// The requests within bytes that come in pieces, as text.
#[must_use]
pub fn beanstalk(pieces: &[&[u8]], max_job_bytes: usize) -> Vec<String> {
    let mut input = Input::new(max_job_bytes);
    let mut requests = Vec::new();
    for piece in pieces {
        input.buffer().extend_from_slice(piece);
        while let Some(request) = input.next() {
            requests.push(format!("{request:?}"));
        }
    }
    requests
}
