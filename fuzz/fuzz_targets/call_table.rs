//! Fuzzes the reader of the memory in which the tracer counts calls. What it does with the bytes, and what must hold, is in
//! `tests/fuzz-smoke`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| remora_fuzz_smoke::feed("call_table", bytes));
