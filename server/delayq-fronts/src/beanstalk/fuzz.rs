//! Entry point of the fuzz target for client input.

use super::input::Input;

/// Parses bytes that arrive in pieces, and returns the requests as text.
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
