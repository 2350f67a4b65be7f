//! The messages of a gRPC stream, as far as their lengths.

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Follows the messages of a stream by their lengths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GrpcMessages {
    /// The bytes of the prefix that have arrived.
    prefix: usize,
    length: usize,
    /// The bytes of the message that have arrived, without the prefix.
    arrived: usize,
}

impl GrpcMessages {
    /// Follows further bytes. Returns how many the reader has to keep until the next part: those of
    /// the largest message that ends or begins in this part, and no fewer than the part has.
    pub(super) fn take(&mut self, part: &[u8]) -> usize {
        let (mut rest, mut most) = (part, part.len());
        while let Some(first) = rest.first() {
            if !self.is_within() {
                *self = Self::default();
            }
            if self.prefix < PREFIX_BYTES {
                // The first byte is not part of the length.
                if self.prefix > 0 {
                    self.length = self.length << 8 | usize::from(*first);
                }
                self.prefix += 1;
                rest = rest.get(1..).unwrap_or_default();
            } else {
                let here = rest.len().min(self.length - self.arrived);
                self.arrived += here;
                rest = rest.get(here..).unwrap_or_default();
            }
            most = most.max(self.prefix + self.arrived);
        }
        most
    }

    /// Returns true while bytes of a message are missing, also those of the first one.
    pub(super) fn is_within(&self) -> bool {
        self.prefix < PREFIX_BYTES || self.arrived < self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_in_any_pieces_holds_its_last_message_alone() {
        let message = |length: u8| {
            let prefix = [0, 0, 0, 0, length];
            [&prefix[..], &vec![7; usize::from(length)]].concat()
        };
        let stream = [message(3), message(0), message(200), message(1)].concat();
        for size in 1..=stream.len() {
            let mut messages = GrpcMessages::default();
            assert!(messages.is_within(), "the first one is expected");
            let parts = stream.chunks(size);
            let held: Vec<_> = parts.map(|part| messages.take(part)).collect();
            assert!(!messages.is_within(), "{size}");
            let most = held.iter().max().unwrap();
            assert_eq!(*most, 205.max(size), "{size}");
            let last = *held.last().unwrap();
            assert!(last <= 6 || size >= 6, "{size}: {held:?}");
        }
        let mut endless = GrpcMessages::default();
        assert_eq!(endless.take(&[1, 255, 255, 255, 255, 0]), 6);
        assert!(endless.is_within());
    }
}
