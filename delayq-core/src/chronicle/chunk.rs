//! The stored format of figures: chunks of minutes and hours, in a ring of slots for each type.
//!
//! A chunk holds the 60 minutes of an hour, or the 24 hours of a day. Its slot is its number modulo
//! the number of slots, so a new chunk overwrites the oldest and nothing has to be deleted. A chunk
//! is never longer than its share of 100 KiB: to stay within it, a chunk merges its rarest lateness
//! buckets.
//!
//! The bytes are: the version, the number of the chunk, then for each minute or hour its offset in
//! the chunk, six numbers, the number of lateness buckets, and the number and count of each. All
//! numbers except the version are LEB128: seven bits per byte, lowest first.

use std::collections::BTreeMap;

use super::{Figures, Lateness, Spell, Step};
use crate::time::Timestamp;

const VERSION: u8 = 1;
/// The largest stored count, five bytes long: it limits the size of a chunk.
const MOST: u64 = u32::MAX as u64;
/// The largest stored sum of run times, seven bytes long: 17,000 years.
const MOST_RUN_MS: u64 = (1 << 49) - 1;

/// Figures to add to one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkChange {
    step: Step,
    chunk: Chunk,
}

impl ChunkChange {
    /// The slot of the chunk: `m0` to `m24`, `h0` to `h30`.
    #[must_use]
    pub fn slot(&self) -> String {
        let slot = self.chunk.number.rem_euclid(self.step.slots());
        format!("{}{slot}", self.step.letter())
    }
}

/// A chunk: figures by their offset in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Chunk {
    /// Hours or days since the epoch.
    number: i64,
    spells: BTreeMap<u64, Figures>,
}

/// The changes needed to add these minutes: to the chunks of minutes and of hours.
#[must_use]
pub fn changes(minutes: &[Spell]) -> Vec<ChunkChange> {
    let mut chunks: BTreeMap<(Step, i64), Chunk> = BTreeMap::new();
    for Spell { at, figures } in minutes {
        if figures.is_empty() {
            continue;
        }
        for step in [Step::Minute, Step::Hour] {
            let ms = at.as_millis();
            let number = ms.div_euclid(step.chunk_ms());
            let length = i64::try_from(step.length().as_millis()).unwrap_or(i64::MAX);
            let offset = ms.rem_euclid(step.chunk_ms()) / length;
            let chunk = chunks.entry((step, number)).or_default();
            chunk.number = number;
            *chunk.spells.entry(offset.unsigned_abs()).or_default() += figures;
        }
    }
    let change = |((step, _), chunk)| ChunkChange { step, chunk };
    chunks.into_iter().map(change).collect()
}

/// The bytes of a slot after a change, from those before. `None` if the slot stays as it is: its
/// content is newer than the change, or from a newer release. A damaged chunk is replaced.
#[must_use]
pub fn merge(slot: Option<&[u8]>, change: &ChunkChange) -> Option<Vec<u8>> {
    let stored = slot.unwrap_or_default();
    if stored.first().is_some_and(|version| *version > VERSION) {
        return None;
    }
    let mut chunk = Chunk::decode(stored).unwrap_or_default();
    if chunk.number > change.chunk.number && !chunk.spells.is_empty() {
        return None;
    }
    if chunk.number < change.chunk.number {
        chunk = Chunk {
            number: change.chunk.number,
            spells: BTreeMap::new(),
        };
    }
    for (offset, figures) in &change.chunk.spells {
        *chunk.spells.entry(*offset).or_default() += figures;
    }
    Some(chunk.encode_within(change.step.most_bytes()))
}

/// The slots that may hold figures from `since` to `now`, oldest first.
#[must_use]
pub fn slots(step: Step, since: Timestamp, now: Timestamp) -> Vec<String> {
    let number = |time: Timestamp| time.as_millis().div_euclid(step.chunk_ms());
    let last = number(now);
    let first = number(since).max(last - step.slots() + 1);
    let name = |number: i64| format!("{}{}", step.letter(), number.rem_euclid(step.slots()));
    (first..=last).map(name).collect()
}

/// The figures of these chunks from `since` to `now`, by time; `chunks` are the bytes of [`slots`].
/// Unreadable chunks, and figures older than the step's reach, are left out.
pub fn read_chunks<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    step: Step,
    since: Timestamp,
    now: Timestamp,
) -> Vec<Spell> {
    let reach = i64::try_from(step.reach().as_millis()).unwrap_or(i64::MAX);
    let length = i64::try_from(step.length().as_millis()).unwrap_or(i64::MAX);
    let oldest = step.begin(Timestamp::from_millis(now.as_millis() - reach + length));
    let from = step.begin(since).max(oldest);
    let mut spells = Vec::new();
    for bytes in chunks {
        let Some(chunk) = Chunk::decode(bytes) else {
            continue;
        };
        for (offset, figures) in chunk.spells {
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            let ms = chunk.number.saturating_mul(step.chunk_ms());
            let at = Timestamp::from_millis(ms.saturating_add(offset.saturating_mul(length)));
            if at >= from && at <= now {
                spells.push(Spell { at, figures });
            }
        }
    }
    spells.sort_by_key(|spell| spell.at);
    spells
}

impl Chunk {
    /// Its bytes, at most `most`: if necessary, the rarest lateness buckets are merged into others.
    fn encode_within(mut self, most: usize) -> Vec<u8> {
        loop {
            let bytes = self.encode();
            if bytes.len() <= most {
                return bytes;
            }
            let used = |figures: &Figures| {
                let counts = figures.lateness.counts().iter();
                counts.filter(|count| **count > 0).count()
            };
            let widest = self.spells.values_mut().max_by_key(|figures| used(figures));
            let is_folded = widest.is_some_and(|figures| figures.lateness.fold_rarest());
            if !is_folded {
                // Numbers of maximum length in every minute still fit, because of the limit `MOST`.
                return bytes;
            }
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put(&mut bytes, self.number.unsigned_abs());
        for (offset, figures) in &self.spells {
            put(&mut bytes, *offset);
            let counts = [figures.started, figures.done, figures.failed, figures.dead];
            for count in counts {
                put(&mut bytes, count.min(MOST));
            }
            put(&mut bytes, figures.run_ms.min(MOST_RUN_MS));
            put(&mut bytes, figures.longest_run_ms.min(MOST));
            let buckets = figures.lateness.counts().iter().enumerate();
            let used: Vec<_> = buckets.filter(|(_, count)| **count > 0).collect();
            put(&mut bytes, used.len() as u64);
            for (bucket, count) in used {
                put(&mut bytes, bucket as u64);
                put(&mut bytes, (*count).min(MOST));
            }
        }
        bytes
    }

    /// `None` for bytes that were not written by [`encode`](Self::encode).
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, mut rest) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        let mut chunk = Self {
            number: i64::try_from(take(&mut rest)?).ok()?,
            spells: BTreeMap::new(),
        };
        while !rest.is_empty() {
            let offset = take(&mut rest)?;
            let mut figures = Figures {
                started: take(&mut rest)?,
                done: take(&mut rest)?,
                failed: take(&mut rest)?,
                dead: take(&mut rest)?,
                run_ms: take(&mut rest)?,
                longest_run_ms: take(&mut rest)?,
                lateness: Lateness::default(),
            };
            for _ in 0..take(&mut rest)? {
                let bucket = usize::try_from(take(&mut rest)?).ok()?;
                figures.lateness.add(bucket, take(&mut rest)?);
            }
            // A chunk of minutes has the most offsets: 60.
            (offset < 60).then(|| chunk.spells.insert(offset, figures))?;
        }
        Some(chunk)
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOON: i64 = 1_767_268_800_000;
    const MINUTE: i64 = 60_000;

    fn spell(at: i64, started: u64) -> Spell {
        let mut figures = Figures {
            started,
            done: started,
            ..Figures::default()
        };
        figures.ran(Duration::from_millis(300));
        figures.lateness.add(2, started);
        Spell {
            at: Timestamp::from_millis(at),
            figures,
        }
    }

    /// The slots of one type in a store.
    #[derive(Default)]
    struct Slots(BTreeMap<String, Vec<u8>>);

    impl Slots {
        fn add(&mut self, minutes: &[Spell]) {
            for change in changes(minutes) {
                let before = self.0.get(&change.slot()).map(Vec::as_slice);
                if let Some(after) = merge(before, &change) {
                    self.0.insert(change.slot(), after);
                }
            }
        }

        fn read(&self, step: Step, now: i64) -> Vec<Spell> {
            self.read_since(step, 0, now)
        }

        fn read_since(&self, step: Step, since: i64, now: i64) -> Vec<Spell> {
            let [since, now] = [since, now].map(Timestamp::from_millis);
            let slots = slots(step, since, now);
            let chunks = slots.iter().filter_map(|slot| self.0.get(slot));
            read_chunks(chunks.map(Vec::as_slice), step, since, now)
        }
    }

    #[test]
    fn the_stored_form_is_what_earlier_releases_wrote() {
        let change = changes(&[spell(NOON + 5 * MINUTE, 300)]).remove(0);
        assert_eq!(change.slot(), "m8");
        let golden = [
            1, 0x9c, 0xfb, 0x1d, 5, 0xac, 2, 0xac, 2, 0, 0, 0xac, 2, 0xac, 2, 1, 2, 0xac, 2,
        ];
        assert_eq!(merge(None, &change).unwrap(), golden);
        assert_eq!(Chunk::decode(&golden), Some(change.chunk));
    }

    #[test]
    fn what_instances_count_in_one_minute_adds_up_in_minutes_and_hours() {
        let mut slots = Slots::default();
        slots.add(&[spell(NOON, 3), spell(NOON + MINUTE, 1)]);
        slots.add(&[spell(NOON, 4)]);
        let minutes = slots.read(Step::Minute, NOON + MINUTE);
        let counts: Vec<_> = minutes.iter().map(|s| s.figures.started).collect();
        assert_eq!(counts, [7, 1]);
        let hours = slots.read(Step::Hour, NOON + MINUTE);
        assert_eq!((hours.len(), hours[0].figures.started), (1, 8));
        assert_eq!(hours[0].figures.run_ms, 900);
        let since = NOON + MINUTE + 1;
        let last = slots.read_since(Step::Minute, since, since + MINUTE);
        assert_eq!((last.len(), last[0].figures.started), (1, 1));
    }

    #[test]
    fn what_is_too_old_is_neither_kept_nor_shown_and_takes_no_place_of_newer() {
        let mut slots = Slots::default();
        slots.add(&[spell(NOON, 1)]);
        let day = 24 * 60 * MINUTE;
        assert_eq!(slots.read(Step::Minute, NOON + day - 1).len(), 1);
        assert_eq!(slots.read(Step::Minute, NOON + day), []);
        // The chunk that reuses the slot 25 hours later, then a late addition to the first one.
        slots.add(&[spell(NOON + 25 * 60 * MINUTE, 2)]);
        slots.add(&[spell(NOON, 5)]);
        let shown = slots.read(Step::Minute, NOON + 25 * 60 * MINUTE);
        assert_eq!((shown.len(), shown[0].figures.started), (1, 2));
    }

    #[test]
    fn a_damaged_chunk_is_replaced_and_one_of_a_newer_release_is_left() {
        let change = changes(&[spell(NOON, 1)]).remove(0);
        let good = merge(None, &change);
        for damaged in [
            &[1_u8][..],
            &[1, 0xff],
            &[1, 4, 99, 1, 1, 1, 1, 1, 1, 0],
            &[0],
        ] {
            assert_eq!(merge(Some(damaged), &change), good, "{damaged:?}");
        }
        assert_eq!(merge(Some(&[2, 7]), &change), None);
    }

    #[test]
    fn a_type_takes_less_than_100_kib_however_much_happens() {
        let mut slots = Slots::default();
        let mut worst = Figures {
            started: u64::MAX,
            done: u64::MAX,
            failed: u64::MAX,
            dead: u64::MAX,
            run_ms: u64::MAX,
            longest_run_ms: u64::MAX,
            lateness: Lateness::default(),
        };
        (0..24).for_each(|bucket| worst.lateness.add(bucket, 1 << 31));
        let end = 32 * 24 * 60;
        let hours = (0..end).step_by(60);
        for nth in hours.chain(end - 25 * 60..end) {
            let at = Timestamp::from_millis(NOON + nth * MINUTE);
            slots.add(&[Spell {
                at,
                figures: worst.clone(),
            }]);
        }
        assert_eq!(slots.0.len(), 56);
        let bytes: usize = slots.0.values().map(Vec::len).sum();
        assert!(bytes <= 100 * 1_024, "{bytes} bytes");
        let last = slots.read(Step::Minute, NOON + end * MINUTE);
        assert!(last.iter().all(|spell| spell.figures.started == MOST));
        assert!(last.len() > 1_400, "{}", last.len());
    }
}
