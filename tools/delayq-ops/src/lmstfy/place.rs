//! The place of a job in lmstfy.

use std::time::Duration;

use delayq_plugin::Timestamp;

/// Number of characters of an id without a version.
const PLAIN_ID: usize = 26;

/// Seconds after its time at which a job counts as ready, even without a lmstfy server.
const OVERDUE: i64 = 10;

/// The digits of an id, in the order of their value.
const DIGITS: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A job with its place: in a set, or in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) queue: String,
    pub(super) id: String,
    pub(super) tries: u16,
    /// The member of the set or list.
    pub(super) member: Vec<u8>,
}

impl Place {
    /// A member of the set: two-byte lengths, low byte first, before the namespace, the queue and,
    /// with the tries in between, the id.
    pub(super) fn timed(member: Vec<u8>) -> Option<Self> {
        let mut rest = member.as_slice();
        let (namespace, queue) = (text(&mut rest)?, text(&mut rest)?);
        let (tries, id) = job(rest)?;
        Some(Self {
            namespace,
            queue,
            id,
            tries,
            member,
        })
    }

    /// A member of the list `PREFIX/NAMESPACE/QUEUE`: the tries and the id.
    pub(super) fn listed(list: &str, member: Vec<u8>) -> Option<Self> {
        let mut names = list.rsplit('/').map(str::to_owned);
        let (queue, namespace) = (names.next()?, names.next()?);
        let (tries, id) = job(&member)?;
        Some(Self {
            namespace,
            queue,
            id,
            tries,
            member,
        })
    }

    /// The key of its data.
    pub(super) fn data_key(&self) -> String {
        format!("j/{}/{}/{}", self.namespace, self.queue, self.id)
    }

    /// Its creation time and the delay that its producer asked for, from its id, whose last four
    /// bytes are the delay in seconds. `None` for an id of another form.
    fn asked(&self) -> Option<(Timestamp, Duration)> {
        let from = self.id.len().checked_sub(PLAIN_ID)?;
        let mut number = 0_u128;
        for byte in self.id.get(from..)?.bytes() {
            let digit = DIGITS.iter().position(|digit| *digit == byte)?;
            number = (number << 5) | u128::try_from(digit).ok()?;
        }
        let made = i64::try_from(number >> 80).ok()?;
        let delay = u32::try_from(number & u128::from(u32::MAX)).ok()?;
        let delay = Duration::from_secs(delay.swap_bytes().into());
        Some((Timestamp::from_millis(made), delay))
    }

    /// The due time that its producer asked for.
    pub(super) fn asked_due(&self) -> Option<Timestamp> {
        self.asked().map(|(made, delay)| made.plus(delay))
    }

    /// True if it waits for its delay, and is not with a consumer whose time ends at `score`. A
    /// consumer's time is at least a second, and begins after the delay.
    pub(super) fn is_delayed(&self, score: i64, now: i64) -> bool {
        let Some((made, delay)) = self.asked() else {
            return false;
        };
        let due = made.plus(delay).as_millis() / 1_000;
        // A second may have begun between the creation of the id and of the place.
        let is_its_time = score == due || (score == due + 1 && now < due);
        self.tries > 0 && !delay.is_zero() && is_its_time
    }
}

/// True if the time at `score` passed so long ago that no lmstfy server can be running: it would
/// have made the job ready or, without a try left, dead.
pub(super) fn is_overdue(score: i64, now: i64) -> bool {
    score.saturating_add(OVERDUE) < now
}

/// The tries and the id at the end of a member.
fn job(mut rest: &[u8]) -> Option<(u16, String)> {
    let (tries, id) = (short(&mut rest)?, text(&mut rest)?);
    rest.is_empty().then_some((tries, id))
}

fn short(rest: &mut &[u8]) -> Option<u16> {
    let (bytes, behind) = rest.split_first_chunk::<2>()?;
    *rest = behind;
    Some(u16::from_le_bytes(*bytes))
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::from(short(rest)?);
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_a_delayed_job_is_told_from_a_taken_one() {
        // 2016-07-30T23:54:10.259Z, with a delay of 60 seconds in the last four bytes.
        let id = "01ARZ3NDEK72TECMN7Y8Y00000";
        let mut member = vec![2, 0, b'n', b's', 1, 0, b'q', 3, 0, 26, 0];
        member.extend_from_slice(id.as_bytes());
        let place = Place::timed(member).unwrap();
        let due = place.asked_due().unwrap().as_millis();
        assert_eq!((place.tries, place.data_key()), (3, format!("j/ns/q/{id}")));
        assert_eq!(due, 1_469_922_850_259 + 60_000);
        let (due, early) = (due / 1_000, due / 1_000 - 1);
        assert!(place.is_delayed(due, due) && !place.is_delayed(due + 5, early));
        // With a consumer that took it at once for a second, or created a second after its id.
        assert!(!place.is_delayed(due + 1, due) && place.is_delayed(due + 1, early));
        assert!(is_overdue(100, 111) && !is_overdue(100, 110));
        let mut member = vec![1, 0, 26, 0];
        member.extend_from_slice(id.as_bytes());
        let listed = Place::listed("q/ns/q", member).unwrap();
        assert_eq!(
            (listed.namespace.as_str(), listed.queue.as_str()),
            ("ns", "q")
        );
        assert!(Place::timed(vec![9, 0, 1]).is_none());
    }
}
