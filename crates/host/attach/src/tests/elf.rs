//! The smallest shared object that exports a name, laid out by hand.

/// A 64-bit little-endian x86-64 shared object whose dynamic symbol table defines `name`.
pub(crate) fn library_exporting(name: &str) -> Vec<u8> {
    library_with(name, "")
}

/// [`library_exporting`] with `text` in its read-only data.
pub(crate) fn library_with(name: &str, text: &str) -> Vec<u8> {
    const HEADER: usize = 64;
    const SECTION: usize = 64;
    let strings = [&b"\0"[..], name.as_bytes(), b"\0.rodata\0"].concat();
    let symbols_at = HEADER;
    let strings_at = symbols_at + 2 * 24;
    let text_at = strings_at + strings.len();
    let sections_at = (text_at + text.len()).next_multiple_of(8);
    let mut bytes = vec![0; sections_at + 4 * SECTION];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    put(16, &[3, 0, 62, 0, 1]);
    put(40, &(sections_at as u64).to_le_bytes());
    put(52, &[HEADER as u8, 0, 0, 0, 0, 0, SECTION as u8, 0, 4, 0, 2, 0]);
    // The symbol: its name, global function, default visibility, section 1, some address and size.
    put(symbols_at + 24, &[1, 0, 0, 0, 0x12, 0, 1, 0]);
    put(symbols_at + 32, &0x1000_u64.to_le_bytes());
    put(symbols_at + 40, &16_u64.to_le_bytes());
    put(strings_at, &strings);
    put(text_at, text.as_bytes());
    let constants_name = u32::try_from(name.len() + 2).expect("short");
    put(sections_at + 3 * SECTION, &constants_name.to_le_bytes());
    let mut section = |index: usize, kind: u32, at: usize, size: usize, link: u32, entry: usize| {
        let base = sections_at + index * SECTION;
        put(base + 4, &kind.to_le_bytes());
        put(base + 24, &(at as u64).to_le_bytes());
        put(base + 32, &(size as u64).to_le_bytes());
        put(base + 40, &link.to_le_bytes());
        put(base + 44, &1_u32.to_le_bytes());
        put(base + 56, &(entry as u64).to_le_bytes());
    };
    const DYNAMIC_SYMBOLS: u32 = 11;
    const STRINGS: u32 = 3;
    const CONSTANTS: u32 = 1;
    section(1, DYNAMIC_SYMBOLS, symbols_at, 48, 2, 24);
    section(2, STRINGS, strings_at, strings.len(), 0, 0);
    section(3, CONSTANTS, text_at, text.len(), 0, 0);
    bytes
}
