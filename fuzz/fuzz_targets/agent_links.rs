//! Fuzzes the table of links that the agent's walk of stacks follows. What it does with the bytes, and what must hold, is in `tests/fuzz-smoke`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| remora_fuzz_smoke::feed("agent_links", bytes));
