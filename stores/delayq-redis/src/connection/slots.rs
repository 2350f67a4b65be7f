//! Slot map of a cluster, as reported by a node.

use redis::Value;

use super::confirm::text;
use super::reply;
use crate::config::Address;

/// The masters of a cluster and their slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotMap {
    /// Grows with each fail-over and each moved slot.
    pub(super) epoch: u64,
    /// First slot, last slot and owner, ascending.
    ranges: Vec<(u16, u16, Address)>,
}

impl SlotMap {
    /// Parses the answers to `CLUSTER INFO` and `CLUSTER SLOTS` of the node at `asked`; `None` if
    /// they have another form.
    pub(super) fn read(info: &Value, slots: &Value, asked: &Address) -> Option<Self> {
        let Value::Array(rows) = slots else {
            return None;
        };
        let mut ranges = Vec::with_capacity(rows.len());
        for row in rows {
            ranges.push(range(row, asked)?);
        }
        ranges.sort();
        let mut info = reply::info(text(info)?);
        let (_, epoch) = info.find(|(name, _)| *name == "cluster_current_epoch")?;
        Some(Self {
            epoch: epoch.parse().ok()?,
            ranges,
        })
    }

    /// The master that has `slot`, if there is one.
    pub(super) fn owner(&self, slot: u16) -> Option<&Address> {
        let after = self.ranges.partition_point(|(first, _, _)| *first <= slot);
        let (_, last, owner) = self.ranges.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(owner)
    }

    /// Every master with slots, without duplicates.
    pub(super) fn masters(&self) -> Vec<Address> {
        let mut masters: Vec<Address> = self.ranges.iter().map(|range| range.2.clone()).collect();
        masters.sort();
        masters.dedup();
        masters
    }

    /// The number of slots without a master.
    pub(super) fn missing(&self) -> u32 {
        let had = self
            .ranges
            .iter()
            .map(|(first, last, _)| u32::from(last - first) + 1);
        16_384_u32.saturating_sub(had.sum())
    }

    /// The map with one slot moved, as reported by a node.
    pub(super) fn moved(&self, slot: u16, owner: Address) -> Self {
        let mut map = self.clone();
        let mut rest = Vec::with_capacity(2);
        map.ranges.retain(|(first, last, had)| {
            if !(*first..=*last).contains(&slot) {
                return true;
            }
            if *first < slot {
                rest.push((*first, slot - 1, had.clone()));
            }
            if slot < *last {
                rest.push((slot + 1, *last, had.clone()));
            }
            false
        });
        map.ranges.append(&mut rest);
        map.ranges.push((slot, slot, owner));
        map.ranges.sort();
        map
    }
}

/// First slot, last slot, master, replicas. A node that does not know its own host means the
/// address at which it was asked.
fn range(row: &Value, asked: &Address) -> Option<(u16, u16, Address)> {
    let Value::Array(fields) = row else {
        return None;
    };
    let [
        Value::Int(first),
        Value::Int(last),
        Value::Array(master),
        ..,
    ] = fields.as_slice()
    else {
        return None;
    };
    let [host, Value::Int(port), ..] = master.as_slice() else {
        return None;
    };
    let host = match text(host) {
        None | Some("" | "?") => &asked.host,
        Some(host) => host,
    };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    let owner = Address::new(host, u16::try_from(*port).ok()?);
    (first <= last).then_some((first, last, owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(port: u16) -> Address {
        Address::new("h", port)
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn row(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![
            host,
            Value::Int(port),
            bulk("id"),
            Value::Array(vec![]),
        ]);
        let replica = master.clone();
        Value::Array(vec![Value::Int(first), Value::Int(last), master, replica])
    }

    fn map(rows: Vec<Value>) -> Option<SlotMap> {
        let info = bulk("cluster_state:ok\r\ncluster_current_epoch:7\r\n");
        SlotMap::read(&info, &Value::Array(rows), &Address::new("asked", 1))
    }

    #[test]
    fn a_slot_belongs_to_the_master_of_its_range() {
        let rows = vec![
            row(8_192, 16_383, bulk("h"), 2),
            row(0, 8_000, Value::Nil, 1),
        ];
        let map = map(rows).unwrap();
        assert_eq!(map.epoch, 7);
        assert_eq!(map.owner(0), Some(&Address::new("asked", 1)));
        assert_eq!(map.owner(8_000), Some(&Address::new("asked", 1)));
        assert_eq!(map.owner(8_001), None);
        assert_eq!(map.owner(16_383), Some(&node(2)));
        assert_eq!(map.masters().len(), 2);
        assert_eq!(map.missing(), 191);
    }

    #[test]
    fn a_slot_that_moved_leaves_its_neighbours_where_they_are() {
        let map = map(vec![row(0, 16_383, bulk("h"), 1)]).unwrap();
        for slot in [0, 5, 16_383] {
            let moved = map.moved(slot, node(2));
            assert_eq!(moved.owner(slot), Some(&node(2)));
            let others = [0, 4, 6, 16_382, 16_383]
                .into_iter()
                .filter(|at| *at != slot);
            for other in others {
                assert_eq!(moved.owner(other), Some(&node(1)), "{slot} {other}");
            }
            assert_eq!(moved.missing(), 0);
        }
    }

    #[test]
    fn a_slot_that_moved_is_had_once_and_no_other_is_missing() {
        let half = map(vec![row(0, 8_191, bulk("h"), 1)]).unwrap();
        for slot in [0, 5, 8_191] {
            assert_eq!(half.moved(slot, node(2)).missing(), 8_192, "{slot}");
        }
        assert_eq!(half.moved(9_000, node(2)).missing(), 8_191);
    }

    #[test]
    fn an_answer_of_another_form_is_no_map() {
        assert_eq!(map(vec![bulk("x")]), None);
        assert_eq!(map(vec![row(5, 4, bulk("h"), 1)]), None);
        assert_eq!(map(vec![row(0, 70_000, bulk("h"), 1)]), None);
        let no_epoch = SlotMap::read(&bulk(""), &Value::Array(vec![]), &node(1));
        assert_eq!(no_epoch, None);
    }
}
