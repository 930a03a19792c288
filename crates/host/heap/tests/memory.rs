//! What is made of a graph takes no more memory than was said before.

use peak_alloc::PeakAlloc;
use remora_heap::{Builder, DominatorTree, HeapGraph, Object, RootKind, Type, TypeFlags};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The references of an object, by its number.
type References = dyn Fn(u64) -> Vec<u64>;

/// Objects with these references, each by its number; the first is held.
fn graph(count: u64, references: impl Fn(u64) -> Vec<u64>, is_held: bool) -> HeapGraph {
    let address = |number: u64| 0x1000 + number * 64;
    let mut builder = Builder::default();
    let node = Type { name: "Node".into(), assembly: String::new(), flags: TypeFlags(0) };
    let type_ix = builder.add_type(node).expect("room");
    for number in 0..count {
        let object = Object { address: address(number), type_ix, bytes: 64 };
        builder.add_object(object, references(number).into_iter().map(address)).expect("room");
    }
    if is_held {
        builder.add_root(address(0), RootKind::Handle).expect("room");
    }
    builder.finish().expect("room")
}

#[test]
fn the_memory_that_a_dominator_tree_takes_is_known_before_it_is_made() {
    const COUNT: u64 = 300_000;
    fn mixed(number: u64, with: u64) -> u64 {
        number.wrapping_mul(with).wrapping_add(12_345) % COUNT
    }
    let shapes: [(&str, &References); 5] = [
        ("a list", &|number| vec![(number + 1) % COUNT]),
        ("an array", &|number| if number == 0 { (1..COUNT).collect() } else { Vec::new() }),
        ("nothing refers to anything", &|_| Vec::new()),
        ("many references", &|number| (1..24).map(|with| mixed(number, 2 * with + 7_919)).collect()),
        ("all refer to all of a few", &|number| vec![number % 7, (number + 1) % COUNT, 0, mixed(number, 7_919)]),
    ];
    for (what, references) in shapes {
        for is_held in [true, false] {
            let graph = graph(COUNT, references, is_held);
            MEMORY.reset_peak_usage();
            let before = MEMORY.current_usage();
            let tree = DominatorTree::new(&graph);
            let (took, said) = ((MEMORY.peak_usage() - before) as u64, DominatorTree::most_memory(&graph));
            assert!(took <= said && said < 4 * took, "{what}: took {took}, said {said}");
            drop(tree);
        }
    }
}
