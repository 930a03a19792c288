//! Files and lines from portable PDBs: beside a module, inside it, and of the wrong build.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use remora_symbols::{ManagedImage, SymbolError};

const EMBEDDED: &[u8] = include_bytes!("../fixtures/embedded.dll");
const EMBEDDED_SOURCE: &str = include_str!("../fixtures/embedded.cs");
const NAMES: &[u8] = include_bytes!("../fixtures/names.dll");
const NAMES_PDB: &[u8] = include_bytes!("../fixtures/names.pdb");
const NAMES_SOURCE: &str = include_str!("../fixtures/names.cs");

/// The number of the first line after the one with `heading` that contains `text`.
fn line_of(source: &str, heading: &str, text: &str) -> u32 {
    let start = source.lines().position(|line| line.contains(heading)).unwrap();
    let found = source.lines().skip(start).position(|line| line.contains(text)).unwrap();
    (start + found) as u32 + 1
}

fn embedded() -> ManagedImage {
    let mut image = ManagedImage::parse(EMBEDDED).unwrap();
    assert!(image.use_embedded_pdb().unwrap());
    image
}

fn with_pdb() -> ManagedImage {
    let mut image = ManagedImage::parse(NAMES).unwrap();
    image.use_pdb(NAMES_PDB).unwrap();
    image
}

/// The first and the last method with this name: what was written, and what the compiler made of it.
fn tokens(image: &ManagedImage, name: &str) -> (u32, u32) {
    let all: Vec<u32> = image
        .method_tokens()
        .filter(|&token| image.method_name(token, &[], &[]).unwrap().to_string() == name)
        .collect();
    (all[0], all[all.len() - 1])
}

#[test]
fn every_il_offset_has_the_line_of_its_statement() {
    let image = embedded();
    let (straight, _) = tokens(&image, "Lines.Straight(int)");
    let lines: Vec<u32> = (0..12).map(|offset| image.pdb().unwrap().line(straight, offset).unwrap().1).collect();
    let statement = |text| line_of(EMBEDDED_SOURCE, "Straight", text);
    assert_eq!(lines[0], statement("x += 1"));
    assert_eq!(lines[5], statement("x *= 2"));
    assert_eq!(lines[11], statement("return x"));
    assert!(lines.is_sorted());
    assert_eq!(image.pdb().unwrap().line(straight, 0).unwrap().0, "/fixtures/embedded.cs");
}

#[test]
fn hidden_points_have_no_line_of_their_own() {
    let image = embedded();
    let (branches, _) = tokens(&image, "Lines.Branches(int)");
    let last = EMBEDDED_SOURCE.lines().count() as u32;
    for offset in 0..200 {
        let (_, line) = image.pdb().unwrap().line(branches, offset).unwrap();
        assert!(line > 1 && line <= last, "offset {offset}: line {line}");
    }
    // The code of an async method starts with hidden points: no line before the first statement.
    let (_, move_next) = tokens(&image, "Lines.Later(int)");
    assert_eq!(image.pdb().unwrap().line(move_next, 0), None);
}

#[test]
fn a_line_directive_changes_the_document() {
    let image = embedded();
    let (elsewhere, _) = tokens(&image, "Lines.Elsewhere()");
    let (document, line) = image.pdb().unwrap().first_line(elsewhere).unwrap();
    assert!(document.ends_with("other/file.cs"), "{document}");
    assert_eq!(line, 502);
}

#[test]
fn a_state_machine_and_its_method_begin_on_the_same_line() {
    let image = embedded();
    let (kickoff, move_next) = tokens(&image, "Lines.Later(int)");
    assert_ne!(kickoff, move_next);
    let pdb = image.pdb().unwrap();
    assert_eq!(pdb.kickoff_method(move_next), Some(kickoff));
    assert_eq!(pdb.kickoff_method(kickoff), None);
    assert_eq!(pdb.first_line(kickoff), pdb.first_line(move_next));
    let line = pdb.first_line(kickoff).unwrap().1;
    assert!(line <= line_of(EMBEDDED_SOURCE, "Later", "Yield") && line >= line_of(EMBEDDED_SOURCE, "Later", "Later"));
}

#[test]
fn a_pdb_beside_the_module_is_read() {
    let image = with_pdb();
    for (name, heading) in [
        ("Fixture.Shapes.Generated.Query(int[])", "Query"),
        ("Fixture.Shapes.Generated.Locals<T>.Captured(string)", "int Captured"),
        ("Fixture.Shapes.Square.operator +(Square, Square)", "operator +"),
    ] {
        let (token, _) = tokens(&image, name);
        let found = image.pdb().unwrap().first_line(token).unwrap();
        assert_eq!(found, ("/fixtures/names.cs".to_owned(), line_of(NAMES_SOURCE, heading, heading)), "{name}");
    }
}

#[test]
fn the_pdb_of_another_build_is_refused() {
    let mut image = ManagedImage::parse(NAMES).unwrap();
    let mut other_guid = NAMES_PDB.to_vec();
    let id = image.code_view().unwrap().guid.0;
    let at = other_guid.windows(16).position(|window| window == id).unwrap();
    other_guid[at] ^= 1;
    let mut other_stamp = NAMES_PDB.to_vec();
    other_stamp[at + 16] ^= 1;
    for (bytes, error) in [
        (include_bytes!("../fixtures/toplevel.pdb").to_vec(), SymbolError::PdbMismatch),
        (other_guid, SymbolError::PdbMismatch),
        (other_stamp, SymbolError::PdbMismatch),
        (b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0".to_vec(), SymbolError::NotPortablePdb),
        (vec![], SymbolError::NotPortablePdb),
        (b"BSJB".to_vec(), SymbolError::Damaged { what: "portable PDB" }),
    ] {
        assert_eq!(image.use_pdb(&bytes), Err(error));
        assert!(image.pdb().is_none());
    }
    assert_eq!(image.use_embedded_pdb(), Ok(false));
}
