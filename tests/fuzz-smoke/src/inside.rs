//! Data that agent and collector read from each other, and code that the agent reads.

use remora_heap_stream::{ClassFacts, HeapDecoder, HeapVisitor, statics};
use remora_ring::{HEADER_WORDS, MAXIMUM_RECORD_WORDS, Ring};
use remora_sampler::{Link, Links, RawSample, Scheduled};
use remora_session::{Caller, caller};
use remora_wire::{Config, Foreign, Frame, FromAgent, Message, ToAgent, unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Payload words of the ring with hostile content.
const RING_WORDS: usize = 64;

pub(crate) fn wire_message(bytes: &[u8]) -> bool {
    let words = words(bytes);
    let Ok(message) = Message::decode((&words).into()) else { return false };
    assert_eq!(Message::decode((&message.encode()).into()), Ok(message));
    true
}

pub(crate) fn wire_config(bytes: &[u8]) -> bool {
    let Ok(config) = Config::decode(bytes) else { return false };
    assert_eq!(Config::decode(&config.encode()), Ok(config));
    true
}

pub(crate) fn wire_control(bytes: &[u8]) -> bool {
    let mut frames = Frame::default();
    let mut understood = control_body(bytes.into());
    // The bytes arrive in pieces, as from a socket.
    for piece in bytes.chunks(7) {
        frames.push(piece);
        loop {
            match frames.take() {
                Ok(Some(body)) => understood |= control_body(body.all()),
                Ok(None) => break,
                Err(_) => return understood,
            }
        }
    }
    understood
}

fn control_body(body: Foreign<&[u8]>) -> bool {
    const LENGTH: usize = 4;
    let (to, from) = (ToAgent::decode(body), FromAgent::decode(body));
    let understood = to.is_ok() || from.is_ok();
    if let Ok(message) = to {
        assert_eq!(ToAgent::decode(message.encode()[LENGTH..].into()), Ok(message));
    }
    if let Ok(message) = from {
        assert_eq!(FromAgent::decode(message.encode()[LENGTH..].into()), Ok(message));
    }
    understood
}

/// The decoded data as text: the same for any division of the stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard(Vec<String>);

impl HeapVisitor for Heard {
    fn range(&mut self, kind: u64, address: u64, length: u64) {
        self.0.push(format!("range {kind} {address} {length}"));
    }
    fn class(&mut self, id: u64, facts: ClassFacts) {
        self.0.push(format!("class {id} {facts:?}"));
    }
    fn object(&mut self, address: u64, class: u32, size: u64) {
        self.0.push(format!("object {address} {class} {size}"));
    }
    fn reference(&mut self, target: u64) {
        self.0.push(format!("to {target}"));
    }
    fn gap(&mut self, address: u64, length: u64) {
        self.0.push(format!("gap {address} {length}"));
    }
    fn broken(&mut self, address: u64) {
        self.0.push(format!("broken {address}"));
    }
    fn end(&mut self, objects: u64) {
        self.0.push(format!("end {objects}"));
    }
}

pub(crate) fn heap_stream(bytes: &[u8]) -> bool {
    let (mut whole, mut pieces) = (Heard::default(), Heard::default());
    let mut decoder = HeapDecoder::default();
    let understood = decoder.push(bytes.into(), &mut whole).is_ok();
    let mut by_pieces = HeapDecoder::default();
    let understood_by_pieces = bytes.chunks(7).all(|piece| by_pieces.push(piece.into(), &mut pieces).is_ok());
    assert_eq!((understood, &whole), (understood_by_pieces, &pieces));
    understood && decoder.has_ended()
}

/// Answers to requests for static fields; and the bytes as words of requests, which must be decoded unchanged.
pub(crate) fn heap_stream_statics(bytes: &[u8]) -> bool {
    let all = words(bytes);
    if let [first, second, fields @ ..] = &all[..] {
        let (owner, count) = statics::head([*first, *second]);
        let asked: Vec<statics::Asked> = fields.iter().map(|word| statics::asked(*word)).collect();
        let again: Vec<u64> = statics::question(owner, &asked).collect();
        let (same, _) = statics::head([again[0], again[1]]);
        assert_eq!((same, u64::from(count) <= u64::from(u32::MAX)), (owner, true));
    }
    match statics::answer(bytes.into()) {
        Ok(statics::Answer::Fields { places, .. }) => places.len() <= statics::FIELDS_AT_ONCE,
        Ok(statics::Answer::End(_)) => true,
        Err(_) => false,
    }
}

/// The memory is shared: whatever the other side writes, both ends continue and stay inside it.
pub(crate) fn agent_ring(bytes: &[u8]) -> bool {
    let memory: Vec<AtomicU64> = (0..HEADER_WORDS + RING_WORDS).map(|_| AtomicU64::new(0)).collect();
    for (word, value) in memory.iter().zip(words(bytes)) {
        word.store(value, Ordering::Relaxed);
    }
    let Some(ring) = Ring::new(&memory) else { panic!("its size is right") };
    let mut taken = 0;
    for round in 0..RING_WORDS {
        let _ = (ring.is_empty(), ring.push(&[&[round as u64], &[1, 2, 3]]));
        assert!(ring.used() <= RING_WORDS);
        let length = ring.pop(|_| taken += 1);
        assert!(length.is_none_or(|length| (1..=MAXIMUM_RECORD_WORDS.min(RING_WORDS)).contains(&length)));
    }
    assert!(taken <= RING_WORDS * RING_WORDS);
    taken > 0
}

/// The agent's unwind table for native code: a sound one can be searched, and each entry is found.
pub(crate) fn wire_unwind(bytes: &[u8]) -> bool {
    let words = words(bytes);
    if !unwind::is_sound(&words) {
        return false;
    }
    let (modules, rows) = words[1..].split_at(words[0] as usize * unwind::MODULE);
    for module in modules.as_chunks().0.iter().map(unwind::Module::decode) {
        assert_eq!(unwind::Module::decode(&module.encode()), module);
        let own = &rows[module.first as usize..][..module.count as usize];
        for rule in own.iter().map(|row| unwind::Rule::decode(*row as u32)) {
            assert_eq!(unwind::Rule::decode(rule.encode()), rule);
        }
    }
    true
}

/// A record of the agent's own ring, and the kernel's scheduling data for the handler.
pub(crate) fn agent_sample(bytes: &[u8]) -> bool {
    let scheduled = Scheduled::parse(bytes).is_some();
    let words = words(bytes);
    let Some(sample) = RawSample::decode(&words) else { return scheduled };
    let shown = sample.words().len() + sample.addresses.len() + sample.window.len() + sample.windows.len();
    assert_eq!(shown, words.len(), "nothing is told twice, and nothing left out");
    true
}

pub(crate) fn leaf_caller(bytes: &[u8]) -> bool {
    let Some((&offset, code)) = bytes.split_first() else { return false };
    let here = code.get(usize::from(offset)..).unwrap_or_default();
    if let Caller::OnStack(depth) = caller(code, usize::from(offset), here) {
        // No prolog can claim more than its instructions can allocate.
        assert!(depth <= (code.len() as u64 + 8) << 32);
    }
    true
}

/// A link table with arbitrary words, and return addresses that are looked up, added and removed.
pub(crate) fn agent_links(bytes: &[u8]) -> bool {
    let all = words(bytes);
    let (table, addresses) = all.split_at(all.len() / 2);
    let table: Vec<AtomicU64> = table.iter().map(|word| AtomicU64::new(*word)).collect();
    let links = Links::new(&table);
    let mut found = false;
    for address in addresses {
        let known = links.find(*address);
        if let Some(Link::Frameless(bytes) | Link::Replaced(bytes)) = known {
            assert!(bytes.is_multiple_of(8) && bytes < 8 << 14, "more than an entry has room for");
        }
        found |= known.is_some();
        for link in [Link::Framed, Link::Native, Link::Frameless(*address & 0xfff8), Link::Replaced(*address)] {
            let is_kept = links.learn(*address, link);
            assert!(!is_kept || links.find(*address) == Some(link));
        }
        links.forget(*address);
        assert_eq!(links.find(*address), None);
    }
    found
}

/// Whole words; a rest is dropped.
fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
