//! Names, layouts and events of classes that a heap's stream describes.

use remora_collector::{Classes, NamingBudget, ONLY_MODULE};
use remora_heap_stream::{
    ARRAY_CLASS, CLASS, END, FIRST_CLASS, HeapDecoder, LAYOUT, PLAIN_CLASS, RANGE, UNKNOWN_CLASS, written,
};

pub(crate) fn heap_classes(bytes: &[u8]) -> bool {
    let mut classes =
        Classes::of_file(concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/host/symbols/fixtures/names.dll"));
    let mut decoder = HeapDecoder::default();
    let is_valid = decoder.push(bytes.into(), &mut classes).is_ok();
    let mut budget = NamingBudget::new(|| false);
    for class in (0..classes.count()).take_while(|_| budget.is_left()) {
        let _ = (classes.name(class), classes.has_finalizer(class), classes.events(class));
    }
    let laid_out = classes.laid_out(&mut budget);
    assert!(laid_out.layouts.len() < 1 << 16, "{} layouts of {} classes", laid_out.layouts.len(), classes.count());
    is_valid && decoder.has_ended()
}

/// A chain of generic types, one that inherits from itself, arrays, and layouts.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const FIRST_TYPE: u64 = 0x0200_0002;
    const FIRST: u64 = 0x1000;
    const CHAIN: u64 = 8;
    let mut numbers = vec![RANGE, 2, 0x1000, 24];
    for class in 0..CHAIN {
        let next = FIRST + (class + 1) % CHAIN;
        numbers.extend([CLASS, FIRST + class, PLAIN_CLASS, ONLY_MODULE, FIRST_TYPE + class, next, 3, next, next, next]);
        numbers.extend([CLASS, class, LAYOUT, 24, 1, 1, 0x0400_0001 + class, 8]);
    }
    numbers.extend([CLASS, FIRST + CHAIN, ARRAY_CLASS, FIRST, 0x12, 1]);
    numbers.extend([CLASS, FIRST + CHAIN + 1, ARRAY_CLASS, FIRST + CHAIN + 1, 0x1d, 2]);
    numbers.extend([CLASS, FIRST + CHAIN + 2, UNKNOWN_CLASS, 0x8000_4005]);
    numbers.extend([FIRST_CLASS + 2, 24, 0, END, 1]);
    vec![written(&numbers)]
}
