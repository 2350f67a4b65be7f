//! Stored format of a type's shard map: the shards, and the shard of each id.
//!
//! A layout is a list of epochs, oldest first. A resize begins a new epoch: new ids go there, and
//! the shards of the older one are sealed and drain. A type without a stored layout has one epoch
//! with one shard, number 0: its keys are those of an unsharded type.
//!
//! ```text
//! 1 0:1 1:4 2:8:0,0,3,1,0,2,0,0 +
//! ```
//!
//! A version, then for each epoch its number, its number of shards and, if a cluster had to be
//! balanced, the suffix of each shard in its keys (0: none). Version 2 is the same for a type whose
//! shards may pack far tasks. A `+` at the end means that the newest
//! epoch is being opened, and the older shards are not all sealed yet.

use std::fmt::Write;

use delayq_core::operate::MAX_SHARDS;

use crate::scripts::ShardId;

/// The version of the stored format.
pub(crate) const VERSION: u32 = 2;
/// The version of a layout whose shards pack no tasks, which earlier releases read.
const UNPACKED: u32 = 1;
/// Maximum number of epochs in a stored layout. This release creates at most [`MAX_LIVE_EPOCHS`];
/// earlier ones created more.
const MAX_EPOCHS: usize = 8;
/// Number of epochs at a time, so that an operation by id asks at most two shards: the next resize
/// waits until the old shards have drained.
pub(crate) const MAX_LIVE_EPOCHS: usize = 2;

/// Shards that were created together: the mapping of ids to them stays the same for as long as they
/// exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) number: u32,
    /// One for each shard, see [`ShardId::suffix`].
    suffixes: Vec<u32>,
}

/// The shards of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Oldest first, never empty.
    epochs: Vec<Epoch>,
    /// True if the newest epoch must not be used yet.
    pub(crate) is_opening: bool,
    /// True if the shards may pack tasks. An earlier release does not know packed tasks, and
    /// refuses such a layout.
    pub(crate) packs: bool,
}

/// The reason why a text is not a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    Damaged,
    Newer(u32),
}

impl Epoch {
    pub(crate) fn count(&self) -> usize {
        self.suffixes.len()
    }

    fn shards(&self, packs: bool) -> impl Iterator<Item = ShardId> {
        let (epoch, count) = (self.number, self.count());
        let suffixes = self.suffixes.iter().enumerate();
        suffixes.map(move |(number, suffix)| ShardId {
            epoch,
            number,
            suffix: *suffix,
            count,
            packs,
        })
    }
}

/// The shard out of `count` that `id` belongs to: the CRC-32 (IEEE) of its bytes, modulo the
/// number.
pub(crate) fn shard_of(id: &[u8], count: usize) -> usize {
    let crc = usize::try_from(crc32fast::hash(id)).unwrap_or(0);
    crc.checked_rem(count).unwrap_or(0)
}

impl Default for Layout {
    /// The layout of an unsharded type.
    fn default() -> Self {
        let whole = Epoch {
            number: 0,
            suffixes: vec![0],
        };
        Self {
            epochs: vec![whole],
            is_opening: false,
            packs: false,
        }
    }
}

impl Layout {
    pub(crate) fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// The number of shards for new ids.
    pub(crate) fn count(&self) -> usize {
        self.epochs.last().map_or(1, Epoch::count)
    }

    /// The number of the next epoch. No number is used twice.
    pub(crate) fn next_number(&self) -> u32 {
        let newest = self.epochs.last().map_or(0, |newest| newest.number);
        newest.saturating_add(1)
    }

    /// True if this layout was made from `earlier`, with a new epoch.
    pub(crate) fn is_after(&self, earlier: &Self) -> bool {
        self.next_number() > earlier.next_number()
    }

    /// The layout with a new epoch with these suffixes, which is not open yet.
    pub(crate) fn raised(&self, suffixes: Vec<u32>) -> Self {
        let mut raised = self.clone();
        raised.epochs.push(Epoch {
            number: self.next_number(),
            suffixes,
        });
        raised.is_opening = true;
        raised
    }

    /// The same layout with its newest epoch open.
    pub(crate) fn opened(&self) -> Self {
        Self {
            is_opening: false,
            ..self.clone()
        }
    }

    /// The same layout for shards that may pack tasks.
    pub(crate) fn packing(&self) -> Self {
        Self {
            packs: true,
            ..self.clone()
        }
    }

    /// The shards of each epoch, oldest epoch first.
    pub(crate) fn shards(&self) -> impl Iterator<Item = impl Iterator<Item = ShardId>> {
        let packs = self.packs;
        self.epochs.iter().map(move |epoch| epoch.shards(packs))
    }

    /// The same layout without these epochs; the newest one stays.
    pub(crate) fn without(&self, drained: &[u32]) -> Self {
        let newest = self.epochs.last().map(|newest| newest.number);
        let mut rest = self.clone();
        rest.epochs
            .retain(|epoch| Some(epoch.number) == newest || !drained.contains(&epoch.number));
        rest
    }

    pub(crate) fn text(&self) -> String {
        let version = if self.packs { VERSION } else { UNPACKED };
        let mut text = version.to_string();
        for epoch in &self.epochs {
            // Writing to a string cannot fail.
            let _ = write!(text, " {}:{}", epoch.number, epoch.count());
            if epoch.suffixes.iter().any(|suffix| *suffix > 0) {
                let suffixes: Vec<String> = epoch.suffixes.iter().map(u32::to_string).collect();
                text.extend([":", &suffixes.join(",")]);
            }
        }
        if self.is_opening {
            text.push_str(" +");
        }
        text
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Unread> {
        let mut words = text.split(' ');
        let packs = match number(words.next().unwrap_or_default()) {
            Some(UNPACKED) => false,
            Some(VERSION) => true,
            Some(newer) if newer > VERSION => return Err(Unread::Newer(newer)),
            _ => return Err(Unread::Damaged),
        };
        let mut epochs: Vec<Epoch> = Vec::new();
        let mut is_opening = false;
        for word in words {
            if is_opening {
                return Err(Unread::Damaged);
            }
            if word == "+" {
                is_opening = true;
                continue;
            }
            let epoch = parse_epoch(word).ok_or(Unread::Damaged)?;
            if epochs
                .last()
                .is_some_and(|last| last.number >= epoch.number)
            {
                return Err(Unread::Damaged);
            }
            epochs.push(epoch);
        }
        let least = if is_opening { 2 } else { 1 };
        if epochs.len() < least || epochs.len() > MAX_EPOCHS {
            return Err(Unread::Damaged);
        }
        Ok(Self {
            epochs,
            is_opening,
            packs,
        })
    }
}

/// A number as written by this format: no sign, no leading zero.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n: &u32| n.to_string() == text)
}

fn parse_epoch(word: &str) -> Option<Epoch> {
    let mut parts = word.split(':');
    let epoch = number(parts.next()?)?;
    let count = number(parts.next()?).filter(|count| (1..=MAX_SHARDS).contains(count))?;
    let count = usize::try_from(count).ok()?;
    let suffixes = match parts.next() {
        None => vec![0; count],
        Some(list) => {
            let list: Option<Vec<u32>> = list.split(',').map(number).collect();
            list.filter(|list| list.iter().any(|suffix| *suffix > 0))?
        }
    };
    let is_whole = epoch > 0 || suffixes == [0];
    let is_good = parts.next().is_none() && suffixes.len() == count && is_whole;
    is_good.then_some(Epoch {
        number: epoch,
        suffixes,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use delayq_core::name::TaskId;

    #[test]
    fn a_layout_is_stored_as_earlier_releases_wrote_it() {
        let whole = Layout::default();
        assert_eq!(whole.text(), "1 0:1");
        let split = whole.raised(vec![0; 4]);
        assert_eq!(split.text(), "1 0:1 1:4 +");
        let raised = split.opened().raised(vec![0, 2, 0, 11, 0, 0]);
        assert_eq!(raised.text(), "1 0:1 1:4 2:6:0,2,0,11,0,0 +");
        assert_eq!(
            raised.opened().without(&[0, 2]).text(),
            "1 1:4 2:6:0,2,0,11,0,0"
        );
        let packing = raised.packing();
        assert_eq!(packing.text(), "2 0:1 1:4 2:6:0,2,0,11,0,0 +");
        for layout in [whole, split, raised, packing] {
            assert_eq!(Layout::parse(&layout.text()), Ok(layout));
        }
    }

    #[test]
    fn a_layout_is_after_those_that_lack_its_newest_epoch() {
        let layout = |text| Layout::parse(text).unwrap();
        let (earlier, later) = (layout("1 0:1 1:4"), layout("1 0:1 1:4 2:6"));
        assert!(later.is_after(&earlier));
        assert!(!earlier.is_after(&later) && !later.is_after(&later));
        assert!(layout("1 2:6").is_after(&earlier));
        assert!(!layout("1 2:6").is_after(&later));
    }

    #[test]
    fn a_layout_has_so_many_epochs_and_no_more() {
        let text = |count| {
            let epochs = (0..count).map(|number| format!(" {number}:1"));
            format!("1{}", epochs.collect::<String>())
        };
        assert!(Layout::parse(&text(MAX_EPOCHS)).is_ok());
        let one_more = Layout::parse(&text(MAX_EPOCHS + 1));
        assert_eq!(one_more, Err(Unread::Damaged));
    }

    #[test]
    fn what_is_no_layout_is_refused() {
        for bad in [
            "",
            "0 0:1",
            "01 0:1",
            "1",
            "1 ",
            "1 0",
            "1 0:0",
            "1 0:2",
            "1 0:1 ",
            "1 0:1 +",
            "1 + 0:1",
            "1 0:1 1:2 + +",
            "1 1:2 0:1",
            "1 1:2 1:2",
            "1 1:02",
            "1 1:257",
            "1 1:2:1",
            "1 1:2:0,0",
            "1 1:2:1,2:",
            "1 0:1:1",
            "1  1:2",
            "1 1:2:-1,1",
            "x",
        ] {
            assert_eq!(Layout::parse(bad), Err(Unread::Damaged), "{bad:?}");
        }
        assert_eq!(Layout::parse("3 anything"), Err(Unread::Newer(3)));
    }

    #[test]
    fn an_id_belongs_where_earlier_releases_put_it() {
        // The check value of CRC-32 (IEEE) is 0xCBF43926.
        assert_eq!(shard_of(b"123456789", 1_000_000), 3_421_780_262 % 1_000_000);
        let ids = ["order-42", "order-43", "a", "01K9ZZZZZZZZZZZZZZZZZZZZZZ"];
        assert_eq!(ids.map(|id| shard_of(id.as_bytes(), 8)), [6, 0, 3, 7]);
        assert_eq!(shard_of(b"a", 1), 0);
    }

    #[test]
    fn ids_of_any_kind_are_spread_evenly() {
        type Name = fn(u32) -> String;
        let names: [Name; 5] = [
            |n| n.to_string(),
            |n| format!("order-{n}"),
            |n| format!("{:08}", n * 10),
            |n| format!("user-{:x}", n.wrapping_mul(2_654_435_761)),
            |_| TaskId::generate().to_string(),
        ];
        for (kind, name) in names.into_iter().enumerate() {
            for count in [2, 3, 6, 8, 16, 100] {
                let mut found = vec![0_u32; count];
                let ids = u32::try_from(count).unwrap() * 1_000;
                for n in 0..ids {
                    found[shard_of(name(n).as_bytes(), count)] += 1;
                }
                let is_even = found.iter().all(|n| (800..=1_200).contains(n));
                assert!(is_even, "kind {kind} over {count}: {found:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_it_is_written_or_refused(text in "[0-3:, +]{0,16}") {
            if let Ok(layout) = Layout::parse(&text) {
                prop_assert_eq!(layout.text(), text);
            }
        }
    }
}
