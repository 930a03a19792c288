//! The cost of a stack walk in the signal handler: 60 frames of code, known to the walk or new to it.

use crate::Outcome;
use crate::bench::Bench;
use crate::statistics::median;
use crate::table::Row;
use fastrand::Rng;
use remora_sampler::{Code, LINK_WORDS, Link, Links, Memory, Native, Output, Ranges, Registers, WINDOW_WORDS, walk};
use serde_json::json;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Frames of a stack.
const FRAMES: usize = 60;
/// Stacks to walk in turn.
const STACKS: usize = 256;
/// Different calls in these stacks.
const CALLS: usize = 2_000;
/// Walks of all stacks for one value, and the number of values.
const TURNS: usize = 40;
const VALUES: usize = 31;
/// Addresses of the code and of the stacks.
const CODE: u64 = 0x7f00_0000_0000;
const STACK: u64 = 0x7ffd_0000_0000;

/// Measures them.
pub fn measure(_: &mut Bench) -> Outcome<Vec<Row>> {
    let mut chance = Rng::with_seed(1);
    let calls: Vec<u64> = (0..CALLS).map(|_| CODE + chance.usize(..1 << 24) as u64).collect();
    let framed: Vec<(u64, Link)> = calls.iter().map(|call| (*call, Link::Framed)).collect();
    // As in framework code: one in four of the methods that call others has no frame.
    let mixed: Vec<(u64, Link)> = calls
        .iter()
        .enumerate()
        .map(|(at, call)| (*call, if at % 4 == 0 { Link::Frameless(8) } else { Link::Framed }))
        .collect();
    let rows = [
        ("all with a frame", &framed[..], &framed[..]),
        ("one of four without", &mixed, &mixed),
        ("nothing known yet", &mixed, &[]),
    ];
    Ok(rows.into_iter().map(|(what, made_of, known)| row(what, made_of, known, &mut chance)).collect())
}

fn row(what: &str, made_of: &[(u64, Link)], known: &[(u64, Link)], chance: &mut Rng) -> Row {
    let stacks: Vec<Words> = (0..STACKS).map(|_| Words::of(made_of, chance)).collect();
    let table: Vec<AtomicU64> = (0..LINK_WORDS).map(|_| AtomicU64::new(0)).collect();
    let links = Links::new(&table);
    known.iter().for_each(|(call, link)| {
        links.learn(*call, *link);
    });
    let bounds = [CODE, CODE + (1 << 24)];
    let code = Code { ranges: Ranges::new(&bounds), links, native: Native::default() };
    let values: Vec<f64> = (0..VALUES).map(|_| nanoseconds(&stacks, &code)).collect();
    let walk = median(&values).unwrap_or_default();
    Row::shown(&format!("walk of {FRAMES} frames: {what}"), format!("{walk:.0} ns"))
        .numbers(json!({ "nanoseconds": walk }))
}

/// The mean time of one walk.
fn nanoseconds(stacks: &[Words], code: &Code) -> f64 {
    let (mut addresses, mut windows) = ([0; 512], [0; 64 * WINDOW_WORDS]);
    let begun = Instant::now();
    for stack in (0..TURNS).flat_map(|_| stacks) {
        let registers = Registers { instruction: CODE, stack: STACK, frame: STACK, result: 0 };
        let out = Output { addresses: &mut addresses, windows: &mut windows };
        black_box(walk(&registers, stack, code, out));
    }
    begun.elapsed().as_nanos() as f64 / (TURNS * stacks.len()) as f64
}

/// An artificial stack.
struct Words(Vec<u64>);

impl Words {
    /// Random calls, each with a saved frame pointer or without.
    fn of(calls: &[(u64, Link)], chance: &mut Rng) -> Words {
        let mut words = vec![0];
        let mut frame = 0;
        // The outermost method has a frame.
        let indexes = (1..FRAMES).map(|_| chance.usize(..calls.len())).chain([1]);
        for (call, link) in indexes.filter_map(|index| calls.get(index)) {
            words.push(*call);
            match link {
                // Its pushed words; its caller's return address follows.
                Link::Frameless(bytes) => words.resize(words.len() + (bytes / 8) as usize, 7),
                _ => {
                    words.extend([7; 4]);
                    let next = words.len();
                    set(&mut words, frame, STACK + 8 * next as u64);
                    frame = next;
                    words.push(0);
                }
            }
        }
        words.push(0);
        Words(words)
    }
}

fn set(words: &mut [u64], at: usize, value: u64) {
    if let Some(word) = words.get_mut(at) {
        *word = value;
    }
}

impl Memory for Words {
    fn word(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(STACK).filter(|offset| offset.is_multiple_of(8))?;
        self.0.get(usize::try_from(offset / 8).ok()?).copied()
    }

    fn pair(&self, address: u64) -> Option<(u64, u64)> {
        let offset = address.checked_sub(STACK).filter(|offset| offset.is_multiple_of(8))?;
        let (pair, _) = self.0.get(usize::try_from(offset / 8).ok()?..)?.split_first_chunk::<2>()?;
        Some((*pair).into())
    }
}
