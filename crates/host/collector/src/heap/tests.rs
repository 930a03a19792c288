//! Snapshots as the session sees them.

use super::*;

#[test]
fn modules_are_read_ahead_in_the_order_in_which_they_are_told_each_once_and_no_more_than_a_few() {
    let process = std::process::id();
    let mut classes = Classes::new(Names::new(Files::of(process)), Methods::new(Files::of(process)));
    assert!(!classes.read_ahead(), "none was told");
    for index in 0..MOST_AHEAD as u32 + 4 {
        classes.message(Message::Module { index, path: format!("/nowhere/{index}.dll"), mvid: None });
    }
    let read: Vec<usize> = std::iter::from_fn(|| classes.read_ahead().then_some(classes.read_ahead)).collect();
    assert_eq!(read, (1..=MOST_AHEAD).collect::<Vec<_>>());
}
