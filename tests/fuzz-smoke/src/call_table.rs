//! The memory in which the tracer counts calls. Its target may have made anything of it.

use remora_call_table::layout::{self, size_in_bytes};
use remora_call_table::{Call, Table};
use remora_calls::{About, Calls, Instant, by_method, by_type, method_totals, profile, write_json, write_timeline};
use std::io::sink;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Places for nodes: few, so that a changed number often names one.
const NODES: usize = 64;

/// Bytes of a changed word: its index and its value. The rest of the memory is zero.
const CHANGE: usize = 12;

/// One memory for all inputs, zero between two of them: it is many times as large as an input.
static MEMORY: LazyLock<Mutex<Vec<AtomicU64>>> =
    LazyLock::new(|| Mutex::new((0..size_in_bytes(NODES, true) / 8).map(|_| AtomicU64::new(0)).collect()));

/// The memory as it is after these changes: read, and written in each format of its own.
pub(crate) fn call_table(bytes: &[u8]) -> bool {
    let memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let (changes, _) = bytes.as_chunks::<CHANGE>();
    let place = |[a, b, c, d, ..]: &[u8; CHANGE]| &memory[u32::from_le_bytes([*a, *b, *c, *d]) as usize % memory.len()];
    for change in changes {
        let [_, _, _, _, value @ ..] = change;
        place(change).store(u64::from_le_bytes(*value), Ordering::Relaxed);
    }
    let calls = Table::new(&memory).map(|table| Calls::read(&table, Instant { ticks: 1 << 30, monotonic: 1 << 30 }));
    changes.iter().for_each(|change| place(change).store(0, Ordering::Relaxed));
    drop(memory);
    let calls = calls.expect("there is room for nodes");
    for (index, node) in calls.nodes.iter().enumerate() {
        assert!(node.parent.is_none_or(|parent| (parent.0 as usize) < index), "callees come after their callers");
        assert!((node.thread.0 as usize) < calls.threads.len());
    }
    assert!(calls.nodes.len() <= NODES);
    let about = About::default();
    let _ = (method_totals(&calls), by_type(&calls), by_method(&calls), profile(&calls, about.clone()));
    write_json(&calls, &about, &mut sink()).expect("a sink takes everything");
    write_timeline(&calls, &about, &mut sink()).expect("a sink takes everything");
    !calls.nodes.is_empty()
}

/// Two threads with calls that have ended, that are active and that threw; and allocations.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    LazyLock::force(&MEMORY);
    [false, true].map(seed).to_vec()
}

fn seed(has_allocations: bool) -> Vec<u8> {
    let words: Vec<AtomicU64> = (0..size_in_bytes(NODES, true) / 8).map(|_| AtomicU64::new(0)).collect();
    let table = Table::new(&words).expect("there is room for nodes");
    let now = AtomicU64::new(1 << 20);
    let clock = || now.fetch_add(1000, Ordering::Relaxed);
    table.set_header(layout::STARTED, 1 << 20);
    table.set_header(layout::STARTED_MONOTONIC, 1 << 20);
    table.set_header(layout::LONG_TICKS, 1);
    table.set_header(layout::COST_INSIDE, 256);
    table.set_header(layout::ALLOCATIONS, u64::from(has_allocations));
    // As the recorder does: the first records are the calibration's.
    table.add_method(0, 0, "");
    table.add_module("");
    let module = table.add_module("/app/Shop.dll").expect("there is room");
    let methods: Vec<u32> = ["Shop.Orders.Pay", "Shop.Orders.Größe"]
        .into_iter()
        .zip(0x0600_0001..)
        .filter_map(|(name, token)| table.add_method(module, token, name))
        .map(|method| method.0)
        .collect();
    for system_id in [7, 8] {
        let index = table.begin_thread(system_id, clock()).expect("there is room");
        let thread = table.thread(index).expect("it was made");
        thread.set_name("Käufer".as_bytes());
        let [outer, inner] = [(methods[0], 900), (methods[1], 800)].map(|(method, frame)| Call { method, frame });
        table.enter(thread, outer, &clock);
        table.enter(thread, inner, &clock);
        if has_allocations {
            let ty = table.add_type("Shop.Order").expect("there is room");
            table.allocate(thread, ty.0, 24, 700, &clock);
        }
        table.leave(thread, inner, &clock);
        table.enter(thread, inner, &clock);
        table.unwind_begins(thread, Some(inner.method), &clock);
        table.unwind_ends(thread, &clock);
        if system_id == 8 {
            table.leave(thread, outer, &clock);
            table.end_thread(index, clock());
        }
    }
    let written = words.iter().zip(0_u32..).map(|(word, index)| (index, word.load(Ordering::Relaxed)));
    let changed = written.filter(|(_, value)| *value != 0);
    changed.flat_map(|(index, value)| index.to_le_bytes().into_iter().chain(value.to_le_bytes())).collect()
}
