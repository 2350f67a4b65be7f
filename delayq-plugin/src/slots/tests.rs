//! Slots under any order of asking, taking, starting, ending and being dropped.

use proptest::prelude::*;

use super::pool::{Place, Pool, Reserved, Slot};

const TYPES: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Ask(usize, usize, bool),
    Take(usize),
    Start(usize),
    Withdraw(usize),
    /// A claim that is dropped, or brings less than it reserved.
    DropReserved(usize),
    /// The handler of a place ends, and another one takes over.
    Replace(usize),
    End(usize),
    Resize(usize),
    ResizeType(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let place = 0..2 * TYPES;
    prop_oneof![
        4 => (place.clone(), 1..9_usize, any::<bool>()).prop_map(|(a, b, c)| Step::Ask(a, b, c)),
        4 => place.clone().prop_map(Step::Take),
        4 => place.clone().prop_map(Step::Start),
        1 => place.clone().prop_map(Step::Withdraw),
        1 => place.clone().prop_map(Step::DropReserved),
        1 => place.prop_map(Step::Replace),
        4 => any::<usize>().prop_map(Step::End),
        1 => (1..9_usize).prop_map(Step::Resize),
        1 => (0..TYPES, 1..5_usize).prop_map(|(of, size)| Step::ResizeType(of, size)),
    ]
}

/// Of 40 turns with the one slot of a pool, those of the second type, which starts something with
/// each.
fn turns(late: &mut Place, busy: &mut Place) -> usize {
    late.ask(1, true);
    busy.ask(1, true);
    let turn = |_| {
        let unused = late.take();
        let slot = busy.take().and_then(|mut reserved| reserved.start());
        assert!(unused.is_some() != slot.is_some());
        usize::from(slot.is_some())
    };
    (0..40).map(turn).sum()
}

#[test]
fn neither_who_was_idle_nor_who_starts_nothing_takes_more_than_his_turns() {
    let pool = Pool::new(1);
    let [mut late, mut busy] = [1, 1].map(|weight| pool.join(9, weight).place());
    busy.ask(1, true);
    for _ in 0..100 {
        let slot = busy.take().and_then(|mut reserved| reserved.start());
        assert!(slot.is_some(), "nobody else asks");
    }
    let busy = turns(&mut late, &mut busy);
    assert!((19..=21).contains(&busy), "{busy} of 40");
}

/// Such as the polls of many types that are idle.
#[test]
fn who_comes_from_idleness_waits_for_his_turn() {
    let pool = Pool::new(1);
    let mut heavy = pool.join(9, 8).place();
    let idle: Vec<_> = (0..90).map(|_| pool.join(9, 1)).collect();
    let mut comers: Vec<Place> = Vec::new();
    heavy.ask(1, true);
    let mut turns = 0;
    for one in idle {
        comers.push(one.place());
        for comer in &mut comers {
            comer.ask(1, false);
        }
        let slot = heavy.take().and_then(|mut reserved| reserved.start());
        turns += usize::from(slot.is_some());
        // The slot of this turn is free again when the next one comes.
        let mut held = None;
        comers.retain_mut(|comer| {
            let reserved = comer.take();
            let stays = reserved.is_none();
            held = held.take().or(reserved);
            stays
        });
        assert!(held.is_some() != slot.is_some());
    }
    assert!(turns > 30, "{turns} of 90");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Two handlers a type. What they hold is what the pool counts, nothing is given above its
    /// size, and nothing is left over that somebody asks for and may have.
    #[test]
    fn no_slot_is_lost_or_given_twice(steps in prop::collection::vec(step(), 1..80)) {
        let pool = Pool::new(6);
        let types: Vec<_> = (1..).take(TYPES).map(|weight| pool.join(4, weight)).collect();
        let places = (0..2 * TYPES).map(|n| types[n % TYPES].place());
        let mut places: Vec<Place> = places.collect();
        let mut reserved: Vec<Option<Reserved>> = places.iter().map(|_| None).collect();
        let mut running: Vec<Slot> = Vec::new();
        let (mut size, mut before) = (6, 0);
        for step in steps {
            match step {
                Step::Ask(at, most, is_certain) => places[at].ask(most, is_certain),
                Step::Take(at) => {
                    let taken = places[at].take();
                    if taken.is_some() {
                        reserved[at] = taken;
                    }
                }
                Step::Start(at) => running.extend(reserved[at].as_mut().and_then(Reserved::start)),
                Step::Withdraw(at) => places[at].withdraw(),
                Step::DropReserved(at) => reserved[at] = None,
                Step::Replace(at) => places[at] = types[at % TYPES].place(),
                Step::End(at) if !running.is_empty() => {
                    let at = at % running.len();
                    drop(running.swap_remove(at));
                }
                Step::End(_) => {}
                Step::Resize(new) => {
                    size = new;
                    pool.resize(new);
                }
                Step::ResizeType(of, size) => types[of].resize(size),
            }
            let held: usize = reserved.iter().flatten().map(Reserved::count).sum();
            let given = pool.check(held + running.len());
            prop_assert!(given <= size.max(before));
            before = given;
        }
        drop((places, reserved, running));
        prop_assert_eq!(pool.check(0), 0);
        let mut place = types[0].place();
        pool.resize(5);
        types[0].resize(5);
        place.ask(5, true);
        prop_assert_eq!(place.take().map(|all| all.count()), Some(5));
    }
}
