//! How a type is split into partitions: which there are, and which one an id belongs to. A stored form.
//!
//! A layout is a list of generations, oldest first. Raising the number of partitions begins a new generation: new
//! ids go there, and the partitions of the older ones are sealed, which drain. A type without a stored layout is
//! one generation of one partition, number 0: its keys are those of a type that is never split.
//!
//! ```text
//! 1 0:1 1:4 2:8:0,0,3,1,0,2,0,0 +
//! ```
//!
//! A version, then each generation: its number, how many partitions it has, and, where a cluster had to be evened
//! out, what stands behind the number of each partition in its keys (0: nothing). A `+` at the end: the newest
//! generation is being opened, and the older ones are not all sealed yet.

use std::fmt::Write;

use crate::store::MAX_PARTITIONS;

/// The version of the stored form.
pub(super) const VERSION: u32 = 1;
/// Most generations of a type at a time: a raise waits until an older one has drained.
pub(super) const MAX_GENERATIONS: usize = 8;

/// Partitions that were made together: the ids are spread over them alike for as long as they exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    pub(super) number: u32,
    /// One a partition, see [`Place::suffix`].
    pub(super) suffixes: Vec<u32>,
}

/// Which partition of its type one is: what its keys are named after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) generation: u32,
    /// Its number in the generation.
    pub(super) number: usize,
    /// Chosen so that the slot of the partition lies on the node that it should; 0 for none.
    pub(super) suffix: u32,
    /// How many partitions the generation has.
    pub(super) count: usize,
}

impl Place {
    /// What stands behind the type in the names of its keys; empty for the one of a type that was never split.
    pub(super) fn name(self) -> String {
        match (self.generation, self.suffix) {
            (0, _) => String::new(),
            (generation, 0) => format!("{generation}.{}", self.number),
            (generation, suffix) => format!("{generation}.{}.{suffix}", self.number),
        }
    }

    /// What its META says while it takes new tasks: the number of partitions, as of the generation that it was
    /// made with. The one of a type that was never split needs no such word, nor to be made.
    pub(super) fn open(self) -> String {
        match self.generation {
            0 => String::new(),
            _ => self.count.to_string(),
        }
    }
}

/// The partitions of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Oldest first, never empty.
    generations: Vec<Generation>,
    /// Whether the newest generation must not be used yet.
    pub(super) is_opening: bool,
}

/// What a text is instead of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    Damaged,
    Newer(u32),
}

impl Generation {
    pub(super) fn count(&self) -> usize {
        self.suffixes.len()
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let (generation, count) = (self.number, self.count());
        let suffixes = self.suffixes.iter().enumerate();
        suffixes.map(move |(number, suffix)| Place {
            generation,
            number,
            suffix: *suffix,
            count,
        })
    }
}

/// The partition, of so many, that `id` belongs to: the CRC-32 (IEEE) of its bytes, modulo the number.
pub(super) fn partition_of(id: &[u8], count: usize) -> usize {
    let crc = usize::try_from(crc32fast::hash(id)).unwrap_or(0);
    crc.checked_rem(count).unwrap_or(0)
}

impl Default for Layout {
    /// That of a type that was never split.
    fn default() -> Self {
        let whole = Generation {
            number: 0,
            suffixes: vec![0],
        };
        Self {
            generations: vec![whole],
            is_opening: false,
        }
    }
}

impl Layout {
    pub(super) fn generations(&self) -> &[Generation] {
        &self.generations
    }

    /// How many partitions new ids are spread over.
    pub(super) fn count(&self) -> usize {
        self.generations.last().map_or(1, Generation::count)
    }

    /// The number of the next generation. None is used twice.
    pub(super) fn next_number(&self) -> u32 {
        let newest = self.generations.last().map_or(0, |newest| newest.number);
        newest.saturating_add(1)
    }

    /// Whether this one was made from `earlier`, with a generation that is new.
    pub(super) fn is_after(&self, earlier: &Self) -> bool {
        self.next_number() > earlier.next_number()
    }

    /// The layout that begins a generation with these suffixes, not yet open.
    pub(super) fn raised(&self, suffixes: Vec<u32>) -> Self {
        let mut raised = self.clone();
        raised.generations.push(Generation {
            number: self.next_number(),
            suffixes,
        });
        raised.is_opening = true;
        raised
    }

    /// The same with its newest generation in use.
    pub(super) fn opened(&self) -> Self {
        Self {
            is_opening: false,
            ..self.clone()
        }
    }

    /// The same without these generations; the newest one stays.
    pub(super) fn without(&self, drained: &[u32]) -> Self {
        let newest = self.generations.last().map(|newest| newest.number);
        let mut rest = self.clone();
        rest.generations.retain(|generation| {
            Some(generation.number) == newest || !drained.contains(&generation.number)
        });
        rest
    }

    pub(super) fn text(&self) -> String {
        let mut text = VERSION.to_string();
        for generation in &self.generations {
            // Writing to a string cannot fail.
            let _ = write!(text, " {}:{}", generation.number, generation.count());
            if generation.suffixes.iter().any(|suffix| *suffix > 0) {
                let suffixes: Vec<String> =
                    generation.suffixes.iter().map(u32::to_string).collect();
                text.extend([":", &suffixes.join(",")]);
            }
        }
        if self.is_opening {
            text.push_str(" +");
        }
        text
    }

    pub(super) fn parse(text: &str) -> Result<Self, Unread> {
        let mut words = text.split(' ');
        match number(words.next().unwrap_or_default()) {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => return Err(Unread::Newer(newer)),
            _ => return Err(Unread::Damaged),
        }
        let mut generations: Vec<Generation> = Vec::new();
        let mut is_opening = false;
        for word in words {
            if is_opening {
                return Err(Unread::Damaged);
            }
            if word == "+" {
                is_opening = true;
                continue;
            }
            let generation = parse_generation(word).ok_or(Unread::Damaged)?;
            if generations
                .last()
                .is_some_and(|last| last.number >= generation.number)
            {
                return Err(Unread::Damaged);
            }
            generations.push(generation);
        }
        let least = if is_opening { 2 } else { 1 };
        if generations.len() < least || generations.len() > MAX_GENERATIONS {
            return Err(Unread::Damaged);
        }
        Ok(Self {
            generations,
            is_opening,
        })
    }
}

/// A number as it is written: no sign, no zero in front.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n: &u32| n.to_string() == text)
}

fn parse_generation(word: &str) -> Option<Generation> {
    let mut parts = word.split(':');
    let generation = number(parts.next()?)?;
    let count = number(parts.next()?).filter(|count| (1..=MAX_PARTITIONS).contains(count))?;
    let count = usize::try_from(count).ok()?;
    let suffixes = match parts.next() {
        None => vec![0; count],
        Some(list) => {
            let list: Option<Vec<u32>> = list.split(',').map(number).collect();
            list.filter(|list| list.iter().any(|suffix| *suffix > 0))?
        }
    };
    let is_whole = generation > 0 || suffixes == [0];
    let is_good = parts.next().is_none() && suffixes.len() == count && is_whole;
    is_good.then_some(Generation {
        number: generation,
        suffixes,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::TaskId;

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
        for layout in [whole, split, raised] {
            assert_eq!(Layout::parse(&layout.text()), Ok(layout));
        }
    }

    #[test]
    fn a_layout_is_after_those_that_lack_its_newest_generation() {
        let layout = |text| Layout::parse(text).unwrap();
        let (earlier, later) = (layout("1 0:1 1:4"), layout("1 0:1 1:4 2:6"));
        assert!(later.is_after(&earlier));
        assert!(!earlier.is_after(&later) && !later.is_after(&later));
        assert!(layout("1 2:6").is_after(&earlier));
        assert!(!layout("1 2:6").is_after(&later));
    }

    #[test]
    fn a_layout_has_so_many_generations_and_no_more() {
        let text = |count| {
            let generations = (0..count).map(|number| format!(" {number}:1"));
            format!("1{}", generations.collect::<String>())
        };
        assert!(Layout::parse(&text(MAX_GENERATIONS)).is_ok());
        let one_more = Layout::parse(&text(MAX_GENERATIONS + 1));
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
        assert_eq!(Layout::parse("2 anything"), Err(Unread::Newer(2)));
    }

    #[test]
    fn an_id_belongs_where_earlier_releases_put_it() {
        // The check value of CRC-32 (IEEE) is 0xCBF43926.
        assert_eq!(
            partition_of(b"123456789", 1_000_000),
            3_421_780_262 % 1_000_000
        );
        let ids = ["order-42", "order-43", "a", "01K9ZZZZZZZZZZZZZZZZZZZZZZ"];
        assert_eq!(ids.map(|id| partition_of(id.as_bytes(), 8)), [6, 0, 3, 7]);
        assert_eq!(partition_of(b"a", 1), 0);
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
                    found[partition_of(name(n).as_bytes(), count)] += 1;
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
