//! Queues that are lent: what was added comes back, each entry once and in its order.

use _native::lent::Lent;
use _native::sends::Kind;

fn part(name: &str) -> Vec<u8> {
    [&[name.len() as u8], name.as_bytes()].concat()
}

fn kind(topic: &str, queue_id: i32) -> Kind {
    Kind {
        topic: topic.into(),
        queue_id,
        sys_flag: 0,
        others: b"TAGS\x01A\x02".to_vec(),
        access_key: Vec::new(),
    }
}

#[test]
fn places_are_used_again_and_kinds_of_the_queue_before_are_unknown() {
    let mut lent = Lent::default();
    let first = lent.add(0, 1, &part("one"), 7);
    assert_eq!(lent.learn(&kind("one", 0), first, 0, 65), Some(()));
    assert_eq!(lent.lend(first, 5), Some(()));
    assert_eq!(lent.take(first), Some((Vec::new(), Vec::new())));
    assert_eq!(lent.retire(first), Some(()));
    let second = lent.add(0, 1, &part("one"), 7);
    assert_eq!(second, first);
    assert_eq!(lent.lend(second, 0), Some(()));
    let run = _native::sends::Run {
        kinds: vec![kind("one", 0)],
        ..Default::default()
    };
    // Without sends nothing is wanted, so that the kind does not matter.
    assert!(lent.resolve(&run, 1).is_ok());
    assert_eq!(lent.resolve(&run, 0).err(), Some(vec![(0, None)]));
    assert_eq!(lent.learn(&kind("one", 0), second, 0, 65), Some(()));
    assert!(lent.resolve(&run, 0).is_ok());
    assert_eq!(lent.take(second), Some((Vec::new(), Vec::new())));
    assert_eq!(lent.resolve(&run, 0).err(), Some(vec![(0, Some(second))]));
    lent.forget();
    assert_eq!(lent.resolve(&run, 0).err(), Some(vec![(0, None)]));
}

#[test]
fn places_that_do_not_exist_are_told() {
    let mut lent = Lent::default();
    assert_eq!(lent.lend(0, 0), None);
    assert_eq!(lent.bring(3), None);
    assert_eq!(lent.take(3), None);
    assert_eq!(lent.retire(3), None);
    assert_eq!(lent.learn(&kind("t", 0), 0, 0, 0), None);
}
