//! Damaged files: every decoder answers, none panics, none runs away.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use remora_symbols::{
    ElfImage, ManagedImage, SymbolError, demangle_native, demangle_raw, mapped_name, parse_maps, short_type_name,
};

/// A small generator of repeatable numbers (xorshift); the seed is printed by every failure as part of the round.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// `original` in many damaged forms: truncated, with bytes changed, with runs overwritten.
fn damaged(original: &[u8], rounds: u64, mut visit: impl FnMut(&[u8])) {
    for round in 1..=rounds {
        let mut numbers = Numbers(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = original.to_vec();
        match round % 4 {
            0 => bytes.truncate(numbers.next(original.len())),
            1 => (0..8).for_each(|_| bytes[numbers.next(original.len())] = numbers.next(256) as u8),
            2 => (0..200).for_each(|_| bytes[numbers.next(original.len())] ^= 1 << numbers.next(8)),
            _ => {
                let start = numbers.next(original.len());
                let end = (start + numbers.next(64)).min(original.len());
                bytes[start..end].fill(if round % 8 == 3 { 0xff } else { 0 });
            }
        }
        visit(&bytes);
    }
}

/// Reads everything there is; answers how many methods had a name.
fn read_all(image: &ManagedImage) -> usize {
    let lines = |token| image.pdb().map(|pdb| (pdb.line(token, 7), pdb.first_line(token), pdb.kickoff_method(token)));
    let tokens = image.method_tokens().take(1000);
    tokens
        .filter(|&token| {
            lines(token).is_some() | image.method_name(token, &[], &[]).is_some_and(|name| !name.to_string().is_empty())
        })
        .count()
}

#[test]
fn damaged_modules_are_read_or_refused() {
    let mut read = 0;
    for fixture in [&include_bytes!("../fixtures/names.dll")[..], include_bytes!("../fixtures/embedded.dll")] {
        damaged(fixture, 400, |bytes| {
            if let Ok(mut image) = ManagedImage::parse(bytes) {
                let _ = image.use_embedded_pdb();
                read += usize::from(read_all(&image) > 0);
            }
        });
    }
    assert!(read > 200, "most damage leaves something to read: {read}");
}

#[test]
fn damaged_pdbs_are_read_or_refused() {
    let mut image = ManagedImage::parse(include_bytes!("../fixtures/names.dll")).unwrap();
    let mut used = 0;
    damaged(include_bytes!("../fixtures/names.pdb"), 400, |bytes| {
        if image.use_pdb(bytes).is_ok() {
            used += usize::from(read_all(&image) > 0);
        }
    });
    assert!(used > 50, "most damage leaves something to read: {used}");
}

#[test]
fn damaged_native_modules_are_read_or_refused() {
    let mut read = 0;
    damaged(include_bytes!("../fixtures/native.so"), 1000, |bytes| {
        if let Ok(image) = ElfImage::parse(bytes) {
            check_bounds(&image);
            let _ = (0..0x4000).step_by(64).filter(|&address| image.function(address).is_some()).count();
            let _ = (
                image.debug_file_paths(&"/a/b".into()),
                image.offset_of_address(u64::MAX),
                image.address_of_offset(u64::MAX),
            );
            read += 1;
        }
    });
    assert!(read > 200, "{read}");
}

/// Bounds hold what was asked for, and lie in the file; answers how many addresses have some.
fn check_bounds(image: &ElfImage) -> usize {
    let held = |&address: &u64| {
        let Some((start, length)) = image.function_bounds(address) else { return false };
        assert!(start <= address && address - start < length, "{address:x}: {start:x} {length:x}");
        assert!(image.offset_of_address(start).is_some() && image.offset_of_address(start + (length - 1)).is_some());
        true
    };
    // The code and what is around it; elsewhere a few.
    let elsewhere = (0..0xf00).chain(0x1200..0x4000).step_by(64).chain(u64::MAX - 8..=u64::MAX);
    (0xf00..0x1200).chain(elsewhere).filter(held).count()
}

#[test]
fn damaged_unwind_tables_are_read_or_left_out() {
    let fixture = include_bytes!("../fixtures/native.stripped.so");
    let start = fixture.windows(12).position(|window| window == b"\x14\0\0\0\0\0\0\0\x01zR\0").unwrap();
    let table = start..start + 0xfc;
    let whole = check_bounds(&ElfImage::parse(fixture).unwrap());
    assert_eq!(whole, 0x1180 - 0x10f0 + 0xb0);
    let (mut no_less, mut less, mut nothing) = (0, 0, 0);
    damaged(&fixture[table.clone()], 1000, |bytes| {
        let mut file = fixture.to_vec();
        file[table.clone()].fill(0);
        file[start..start + bytes.len()].copy_from_slice(bytes);
        match check_bounds(&ElfImage::parse(file).unwrap()) {
            0 => nothing += 1,
            count if count < whole => less += 1,
            _ => no_less += 1,
        }
    });
    assert!(nothing > 100 && less > 100 && no_less > 10, "{nothing} {less} {no_less}");
}

#[test]
fn damaged_text_is_read_or_left_out() {
    let maps =
        b"7f0000001000-7f0000002000 r-xp 00001000 08:01 7 /lib/native.so (deleted)\n7f00-8000 r-xp 0 0:0 0 [vdso]\n";
    damaged(maps, 2000, |bytes| {
        let entries = parse_maps(bytes);
        let _ = mapped_name(0x7f0000001010, &entries, |_| None);
    });
    for name in [
        &b"App.Outer+<>c__DisplayClass3_0[System.Int32,[A.B`1[C], D]]"[..],
        b"<<Main>g__L|0_1>d",
        b"_ZNSt6vectorIiSaIiEE9push_backEOi",
    ] {
        damaged(name, 2000, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let _ = demangle_raw(&text, &text).to_string();
            let _ = (demangle_native(&text), short_type_name(&text));
        });
    }
}

#[test]
fn what_is_no_module_says_what_it_is() {
    let native = include_bytes!("../fixtures/native.so");
    assert_eq!(ManagedImage::parse(native).unwrap_err(), SymbolError::NotPortableExecutable);
    assert_eq!(ManagedImage::parse(b"").unwrap_err(), SymbolError::NotPortableExecutable);
    assert_eq!(ManagedImage::parse(b"MZ").unwrap_err(), SymbolError::Damaged { what: "PE headers" });
    let mut unmanaged = include_bytes!("../fixtures/names.dll").to_vec();
    let header = u32::from_le_bytes(unmanaged[0x3c..0x40].try_into().unwrap()) as usize;
    unmanaged[header + 24 + 96 + 14 * 8..][..8].fill(0);
    assert_eq!(ManagedImage::parse(&unmanaged).unwrap_err(), SymbolError::NotManaged);
    for bytes in [&b""[..], b"\x7fELF", include_bytes!("../fixtures/names.dll")] {
        assert!(matches!(ElfImage::parse(bytes), Err(SymbolError::NotElf { .. })));
    }
}
