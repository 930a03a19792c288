//! Sorts objects by address, if they are not sorted yet.

/// Input positions of the objects in address order; of several at one address, the first.
/// `None` if they ascend already.
pub(crate) fn ascending(addresses: &[u64]) -> Option<Vec<u32>> {
    if addresses.windows(2).all(|pair| pair[0] < pair[1]) {
        return None;
    }
    let mut places: Vec<u32> = (0..addresses.len() as u32).collect();
    // Stable, and fast where whole ranges ascend.
    places.sort_by_key(|&place| addresses[place as usize]);
    places.dedup_by_key(|place| addresses[*place as usize]);
    Some(places)
}

/// The items at `places`, in that order.
pub(crate) fn gathered<T: Copy>(items: &[T], places: &[u32]) -> Vec<T> {
    places.iter().map(|&place| items[place as usize]).collect()
}
