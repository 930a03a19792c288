//! Fuzzes the decoder of method bodies. What it does with the bytes, and what must hold, is in `tests/fuzz-smoke`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| remora_fuzz_smoke::feed("il_body", bytes));
