//! The methods of a module's file, read without the crate under test; and the comparison of a wrapped body with its original.

use remora_il::{Assembler, Body, Handler, Instruction, Instructions, MethodSignature, Operand, Probes, wrap};

/// A method: the bytes from its header on, and its signature.
pub struct Method<'a> {
    pub body: &'a [u8],
    pub signature: &'a [u8],
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// The methods with IL of a module: ECMA-335 II.24 and II.25. `None` for a file without IL.
pub fn methods(file: &[u8]) -> Option<Vec<Method<'_>>> {
    let header = u32_at(file, 0x3C);
    let (sections, optional) = (u16_at(file, header + 6), u16_at(file, header + 20));
    let table = header + 24 + optional;
    let place = |address: usize| {
        (0..sections).map(|section| table + section * 40).find_map(|section| {
            let (size, begin) = (u32_at(file, section + 8), u32_at(file, section + 12));
            let raw = u32_at(file, section + 20);
            (begin..begin + size.max(u32_at(file, section + 16))).contains(&address).then(|| address - begin + raw)
        })
    };
    let directories = header + 24 + if u16_at(file, header + 24) == 0x20B { 112 } else { 96 };
    let cli = place(u32_at(file, directories + 14 * 8))?;
    let root = place(u32_at(file, cli + 8))?;
    let (tables, blobs) = (stream(file, root, b"#~\0")?, stream(file, root, b"#Blob\0")?);
    let heap_sizes = file[tables + 6];
    let valid = u64::from_le_bytes(file[tables + 8..tables + 16].try_into().unwrap());
    let mut rows = [0; 64];
    let mut at = tables + 24;
    for (number, count) in rows.iter_mut().enumerate().filter(|(number, _)| valid >> number & 1 == 1) {
        let _ = number;
        *count = u32_at(file, at);
        at += 4;
    }
    let wide = |is_wide: bool| if is_wide { 4 } else { 2 };
    let (text, guid, blob) = (wide(heap_sizes & 1 != 0), wide(heap_sizes & 2 != 0), wide(heap_sizes & 4 != 0));
    let index = |table: usize| wide(rows[table] >= 1 << 16);
    let coded = |tables: &[usize], bits: u32| wide(tables.iter().any(|table| rows[*table] >= 1 << (16 - bits)));
    let sizes = [
        2 + text + 3 * guid,
        coded(&[0x00, 0x1A, 0x23, 0x01], 2) + 2 * text,
        4 + 2 * text + coded(&[0x02, 0x01, 0x1B], 2) + index(0x04) + index(0x06),
        index(0x04),
        2 + text + blob,
        index(0x06),
        8 + text + blob + index(0x08),
    ];
    let first = at + (0..6).map(|table| sizes[table] * rows[table]).sum::<usize>();
    let mut found = Vec::new();
    for row in (0..rows[6]).map(|row| first + row * sizes[6]) {
        let (address, is_il) = (u32_at(file, row), u16_at(file, row + 4) & 3 == 0);
        let Some(body) = place(address).filter(|_| address != 0 && is_il) else { continue };
        let offset = if blob == 4 { u32_at(file, row + 8 + text) } else { u16_at(file, row + 8 + text) };
        let signature = blobs + offset;
        let (length, begin) = match file[signature] {
            length @ 0..0x80 => (usize::from(length), signature + 1),
            high => (usize::from(high & 0x3F) << 8 | usize::from(file[signature + 1]), signature + 2),
        };
        found.push(Method { body: &file[body..], signature: &file[begin..begin + length] });
    }
    Some(found)
}

fn stream(file: &[u8], root: usize, name: &[u8]) -> Option<usize> {
    let mut at = root + 16 + u32_at(file, root + 12);
    let count = u16_at(file, at + 2);
    at += 4;
    for _ in 0..count {
        let length = file[at + 8..].iter().position(|byte| *byte == 0)?;
        if file[at + 8..].starts_with(name) {
            return Some(root + u32_at(file, at));
        }
        at += 8 + (length + 1).next_multiple_of(4);
    }
    None
}

/// Probes of recognizable lengths. The crate does not run them.
pub fn probes(signature: &MethodSignature<'_>) -> Probes {
    let mut before = Assembler::default();
    before.ldc_i4(7).stloc(1);
    let mut after = Assembler::default();
    after.ldc_i4(8).stloc(2);
    let mut on_exception = Assembler::default();
    on_exception.ldc_i4(9).stloc(3);
    let result = signature.result.map(|_| 5);
    Probes { before, on_exception, after, result, locals: 0x1100_0001, max_stack: 3, ..Probes::default() }
}

/// Instructions of a mark.
const MARK: usize = 2;

/// The probes with a mark before each call.
fn with_marks(probes: &Probes, body: &Body<'_>) -> Probes {
    let mut mark = Assembler::default();
    mark.ldc_i4(6).stloc(4);
    let calls = all(body).into_iter().filter(|instruction| instruction.opcode == 0x28);
    Probes { marks: calls.map(|call| (call.offset, mark.clone())).collect(), ..probes.clone() }
}

/// Wraps a body, and checks that the result is the old body inside the probes: each instruction in its order, each branch and each clause
/// with the same instructions as before. Returns the new body; `None` for one that is refused on purpose.
pub fn check(method: &Method<'_>) -> Option<Vec<u8>> {
    let signature = MethodSignature::read(method.signature).expect("a signature");
    let old = Body::read(method.body).expect("a body");
    let probes = probes(&signature);
    wrapped(&old, &with_marks(&probes, &old))?;
    wrapped(&old, &probes)
}

fn wrapped(old: &Body<'_>, probes: &Probes) -> Option<Vec<u8>> {
    let wrapped = match wrap(old, probes) {
        Err(remora_il::Error::TailCall | remora_il::Error::Jump) => return None,
        wrapped => wrapped.expect("a body that can be wrapped"),
    };
    let new = Body::read(&wrapped).expect("what was written");
    let below = if probes.marks.is_empty() { 0 } else { old.max_stack };
    assert!(new.max_stack >= below + probes.max_stack);
    compare(old, &new, probes);
    Some(wrapped)
}

fn all<'a>(body: &Body<'a>) -> Vec<Instruction<'a>> {
    Instructions::of(body.code).collect::<Result<_, _>>().expect("known instructions")
}

fn compare(old: &Body<'_>, new: &Body<'_>, probes: &Probes) {
    let (before, after) = (all(old), all(new));
    let begin = probes.before.code().len();
    assert!(new.code.starts_with(probes.before.code()));
    let mut next = after.iter().position(|instruction| instruction.offset == begin).expect("the body's begin");
    // Where each old instruction is now, with its mark.
    let mut places = Vec::new();
    for instruction in &before {
        places.push((instruction.offset, after[next].offset));
        next += if probes.marks.contains_key(&instruction.offset) { MARK } else { 0 };
        if instruction.opcode == 0x2A {
            next += usize::from(probes.result.is_some());
            assert_eq!(after[next].opcode, 0xDD, "a return leaves");
        }
        next += 1;
    }
    let end = after.get(next).map_or(new.code.len(), |instruction| instruction.offset);
    let place = |offset: usize| match places.binary_search_by_key(&offset, |(old, _)| *old) {
        Ok(found) => places[found].1,
        Err(_) => {
            assert_eq!(offset, old.code.len(), "a place is an instruction, or the end");
            end
        }
    };
    for instruction in before.iter().filter(|instruction| instruction.opcode != 0x2A) {
        let first = after.iter().position(|moved| moved.offset == place(instruction.offset)).expect("it is there");
        let mark = if probes.marks.contains_key(&instruction.offset) { MARK } else { 0 };
        same(instruction, &after[first + mark], &place);
    }
    let fault = new.clauses.last().expect("the probes' own handler");
    assert_eq!((fault.protected, fault.handler), ((begin, end), Handler::Fault));
    assert_eq!(fault.handled.0, end);
    assert_eq!(new.clauses.len(), old.clauses.len() + 1);
    for (old, new) in old.clauses.iter().zip(&new.clauses) {
        let moved = |(from, to): (usize, usize)| (place(from), place(to));
        assert_eq!((moved(old.protected), moved(old.handled)), (new.protected, new.handled));
        match (old.handler, new.handler) {
            (Handler::Filter(old), Handler::Filter(new)) => assert_eq!(place(old), new),
            (old, new) => assert_eq!(old, new),
        }
    }
    // Each `leave` of a return goes behind the handler.
    let returns = before.iter().filter(|instruction| instruction.opcode == 0x2A).count();
    let out = after.iter().filter(|moved| moved.operand == Operand::Long(fault.handled.1)).count();
    assert_eq!(returns, out);
}

fn same(old: &Instruction<'_>, new: &Instruction<'_>, place: &impl Fn(usize) -> usize) {
    match (old.operand, new.operand) {
        (Operand::Plain(old_bytes), Operand::Plain(new_bytes)) => {
            assert_eq!((old.opcode, old_bytes), (new.opcode, new_bytes));
        }
        (Operand::Short(target) | Operand::Long(target), Operand::Long(moved)) => {
            let long = if old.opcode == 0xDE {
                0xDD
            } else if old.opcode < 0x38 {
                old.opcode + 0x0D
            } else {
                old.opcode
            };
            assert_eq!((long, place(target)), (new.opcode, moved));
        }
        (Operand::Switch(targets), Operand::Switch(moved)) => {
            let distances = |bytes: &[u8]| -> Vec<i64> {
                bytes.chunks(4).map(|four| i64::from(i32::from_le_bytes(four.try_into().unwrap()))).collect()
            };
            let old: Vec<usize> =
                distances(targets).iter().map(|distance| place((old.end as i64 + distance) as usize)).collect();
            let new: Vec<usize> =
                distances(moved).iter().map(|distance| (new.end as i64 + distance) as usize).collect();
            assert_eq!(old, new);
        }
        (old, new) => panic!("{old:?} became {new:?}"),
    }
}
