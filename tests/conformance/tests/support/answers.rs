//! The probe's answer to a raw call.

#![allow(dead_code, reason = "each test program uses its part of it")]

use remora_conformance::probe::{Seat, Stage};

/// The answer to one call: the code, the numeric outputs, and the text, if any.
pub struct Answer {
    pub numbers: Vec<u64>,
    pub text: String,
}

impl Answer {
    pub fn code(&self) -> u64 {
        self.numbers[0]
    }

    /// The first output after the code: mostly a number of entries, or a length.
    pub fn count(&self) -> u64 {
        self.numbers[1]
    }
}

pub fn ask(seat: &mut Seat, question: &str) -> Answer {
    let words = seat.done(&format!("ask {question}"));
    let number = |word: &String| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let numbers: Vec<u64> = words.iter().map_while(number).collect();
    assert!(!numbers.is_empty(), "no code in the answer to `{question}`: {words:?}");
    Answer { text: words[numbers.len()..].join(" "), numbers }
}

/// A method that has just been compiled.
pub fn compiled(stage: &mut Stage, seat: &mut Seat) -> String {
    stage.act("a jit");
    seat.ids("JITCompilationFinished").pop().unwrap_or_else(|| panic!("nothing was compiled"))
}
