//! Fuzzes the decoder of the messages of a trace of methods. What it does with the bytes, and what must hold, is in `tests/fuzz-smoke`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| remora_fuzz_smoke::feed("wire_method_trace", bytes));
