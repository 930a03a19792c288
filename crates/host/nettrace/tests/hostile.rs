//! Streams that lie: whatever a byte says, nothing panics, and what is handed out stays in proportion to what came in.

mod fixture;

use fixture::{CORE_3, assemble, objects, stream};
use remora_nettrace::{SampledProfile, method_name};
use remora_profile::{Event, Meta, Profile, Summary};

/// Marsaglia's xorshift: the same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Reads it all and looks at everything, as an exporter would.
fn read(bytes: &[u8]) -> Profile {
    let mut sampled = SampledProfile::new(Event::Wall);
    // Refusal is as good an answer as any.
    let _ = sampled.push(bytes.into());
    let profile = sampled.finish(Meta::default());
    assert!(profile.loss.adds_up());
    assert_eq!(profile.loss.delivered, profile.samples().len() as u64);
    assert!(profile.samples().len() <= bytes.len());
    let summary = Summary::of(&profile, None);
    assert_eq!(summary.total_weight, profile.total_weight());
    profile
}

/// A shorter stream of the same shape, so that many can be tried.
fn short_stream() -> Vec<u8> {
    let mut objects = objects(&stream(CORE_3));
    let keep = |name: &str| if name == "EventBlock" { 3 } else { 2 };
    let mut seen = std::collections::HashMap::new();
    objects.retain(|object| {
        let count = seen.entry(object.name().to_owned()).or_insert(0);
        *count += 1;
        *count <= keep(object.name())
    });
    assemble(&objects)
}

#[test]
fn damaged_bytes_do_not_panic() {
    let whole = short_stream();
    assert!(!read(&whole).samples().is_empty());
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..1 + numbers.below(8) {
            let at = numbers.below(bytes.len());
            bytes[at] = [0, 1, 0x7f, 0x80, 0xff, numbers.next() as u8][numbers.below(6)];
        }
        refused += usize::from(read(&bytes).meta.notes.iter().any(|note| note.contains("damaged")));
    }
    assert!(refused > 10, "some damage is noticed");
}

#[test]
fn damaged_lengths_and_missing_or_repeated_pieces_do_not_panic() {
    let whole = short_stream();
    let mut numbers = Numbers(0xdead_beef_cafe_f00d);
    for _ in 0..200 {
        let mut bytes = whole.clone();
        let at = numbers.below(bytes.len());
        let end = (at + numbers.below(64)).min(bytes.len());
        match numbers.below(3) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes[at..end].fill(0xff),
        }
        read(&bytes);
    }
}

#[test]
fn damage_inside_every_kind_of_block_does_not_panic() {
    let whole = objects(&short_stream());
    let mut numbers = Numbers(0x0123_4567_89ab_cdef);
    for index in 0..whole.len() {
        for _ in 0..20 {
            let mut objects = whole.clone();
            let content = &mut objects[index].content;
            let at = numbers.below(content.len());
            content[at] = numbers.next() as u8;
            let length = numbers.below(content.len() + 1);
            if numbers.below(4) == 0 {
                content.truncate(length);
            }
            let objects =
                if objects[index].name() == "Trace" && objects[index].content.len() != 48 { &whole } else { &objects };
            read(&assemble(objects));
        }
    }
}

#[test]
fn damaged_signatures_do_not_panic() {
    let signature = "instance class A`1<!0,value class B`2<!!1,int32[0...,0...]>&>  (class C.<>c__D&,unsigned int8*[][],pMT: 0x1<class D>)";
    let mut numbers = Numbers(0x5555_aaaa_3333_cccc);
    for _ in 0..3000 {
        let mut text: Vec<char> = signature.chars().collect();
        for _ in 0..1 + numbers.below(4) {
            let at = numbers.below(text.len());
            text[at] = ['<', '>', '[', ']', '(', ')', ',', '`', '!', '&', '*', 'é', ' '][numbers.below(13)];
        }
        let text: String = text.into_iter().collect();
        assert!(!method_name("N.T`1+<>c[System.__Canon]", "<M>b__0", &text).is_empty());
        assert!(!method_name(&text, &text, &text).is_empty());
    }
}
