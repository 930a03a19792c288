//! The compiled rows against gimli's own evaluation of `.eh_frame`: this test's executable, and libraries of the machine.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, Encoding, EndianSlice, EvaluationResult, Format, LittleEndian, Register,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, Value, X86_64,
};
use object::{Object, ObjectSection};
use remora_symbols::UnwindRules;
use remora_wire::unwind::Rule;

type Section<'a> = EhFrame<EndianSlice<'a, LittleEndian>>;

const STACK: u64 = 0x7000_0000;
const FRAME: u64 = 0x7000_4000;

/// What lies at an address of the made-up stack.
fn word(address: u64) -> u64 {
    address.wrapping_mul(0x9e37_79b9) & 0x7fff_fff8
}

/// CFA, where the return address is (`None`: there is none), and RBP of the caller.
type Caller = (u64, Option<u64>, u64);

fn by_rule(rule: Rule, instruction: u64) -> Option<Caller> {
    let caller = |cfa: u64, saved: u32| {
        let frame = if saved == 0 { FRAME } else { word(cfa - u64::from(saved)) };
        Some((cfa, Some(cfa - 8), frame))
    };
    match rule {
        Rule::Unknown => None,
        Rule::Stack { cfa, saved } => caller(STACK + u64::from(cfa), saved),
        Rule::Frame { cfa, saved } => caller(FRAME + u64::from(cfa), saved),
        Rule::Stored { at, saved } => caller(word(STACK + u64::from(at)) + 8, saved),
        Rule::Realigned { below } => {
            Some((word(FRAME - u64::from(below)), Some(word(FRAME - u64::from(below)) - 8), word(FRAME)))
        }
        Rule::Linkage { pushed } => caller(STACK + 8 + 8 * u64::from(instruction & 15 >= u64::from(pushed)), 0),
        Rule::Signal => Some((word(STACK + 160), Some(STACK + 168), word(STACK + 120))),
        Rule::End => Some((0, None, 0)),
    }
}

fn by_gimli(table: &Section<'_>, row: &UnwindTableRow<usize>, instruction: u64) -> Option<Caller> {
    if row.register(X86_64::RA) == Some(RegisterRule::Undefined) {
        return Some((0, None, 0));
    }
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            register_value(*register, instruction)?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => value(table, expression, instruction, None)?,
    };
    let place = |register| match row.register(register) {
        Some(RegisterRule::Offset(offset)) => Some(cfa.wrapping_add_signed(offset)),
        Some(RegisterRule::Expression(expression)) => value(table, &expression, instruction, Some(cfa)),
        _ => None,
    };
    Some((cfa, Some(place(X86_64::RA)?), place(X86_64::RBP).map_or(FRAME, word)))
}

fn register_value(register: Register, instruction: u64) -> Option<u64> {
    match register {
        X86_64::RSP => Some(STACK),
        X86_64::RBP => Some(FRAME),
        X86_64::RA => Some(instruction),
        _ => None,
    }
}

fn value(
    table: &Section<'_>,
    expression: &UnwindExpression<usize>,
    instruction: u64,
    initial: Option<u64>,
) -> Option<u64> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 5 };
    let mut evaluation = expression.get(table).ok()?.evaluation(encoding);
    initial.into_iter().for_each(|initial| evaluation.set_initial_value(initial));
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => return evaluation.value_result()?.to_u64(u64::MAX).ok(),
            EvaluationResult::RequiresMemory { address, .. } => {
                evaluation.resume_with_memory(Value::Generic(word(address))).ok()?
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                evaluation.resume_with_register(Value::Generic(register_value(register, instruction)?)).ok()?
            }
            _ => return None,
        }
    }
}

fn at(rows: &[u64], address: u64) -> Rule {
    let after = rows.partition_point(|row| row >> 32 <= address);
    after.checked_sub(1).map_or(Rule::Unknown, |index| Rule::decode(rows[index] as u32))
}

/// Compares every row, at its first, middle and last address; how many there were, and how many of them have a rule.
fn compare(path: &str) -> (usize, usize) {
    let bytes = std::fs::read(path).expect("a file of the machine");
    let compiled = UnwindRules::parse(&bytes).expect("a module");
    assert!(compiled.rows.is_sorted_by(|a, b| a >> 32 < b >> 32), "{path}");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let section = file.section_by_name(".eh_frame").expect("it has one");
    let mut table = EhFrame::new(section.data().expect("it is there"), LittleEndian);
    table.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let (mut context, mut all) = (UnwindContext::new(), table.entries(&bases));
    let (mut seen, mut known) = (0, 0);
    while let Ok(Some(entry)) = all.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let function = partial.parse(EhFrame::cie_from_offset).expect("a whole entry");
        let mut rows = function.rows(&table, &bases, &mut context).expect("its rows");
        while let Some(row) = rows.next_row().expect("a row") {
            if row.start_address() >= row.end_address() {
                continue;
            }
            for instruction in
                [row.start_address(), row.start_address().midpoint(row.end_address()), row.end_address() - 1]
            {
                let Some(found) = by_rule(at(&compiled.rows, instruction), instruction) else { continue };
                assert_eq!(by_gimli(&table, row, instruction), Some(found), "{path} {instruction:x} {row:?}");
                known += usize::from(instruction == row.start_address());
            }
            seen += 1;
        }
    }
    (seen, known)
}

/// Where a library of the machine lies, by the mappings of this test.
fn mapped(name: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("own mappings");
    let path = maps.split_whitespace().find(|word| word.starts_with('/') && word.contains(name));
    path.expect("this test has it loaded").to_owned()
}

#[test]
fn every_row_is_what_the_file_says() {
    let own = std::env::current_exe().expect("own path").to_string_lossy().into_owned();
    for path in [own, mapped("/libc.so"), mapped("/libgcc_s.so"), mapped("/ld-linux")] {
        let (seen, known) = compare(&path);
        assert!(seen > 500 && known * 100 >= seen * 97, "{path}: {known} of {seen} rows have a rule");
    }
}

#[test]
fn the_c_library_says_where_threads_begin_and_how_signals_return() {
    let library = UnwindRules::parse(&std::fs::read(mapped("/libc.so")).expect("a file")).expect("a module");
    let rules: Vec<Rule> = library.rows.iter().map(|row| Rule::decode(*row as u32)).collect();
    assert!(rules.contains(&Rule::End) && rules.contains(&Rule::Signal) && !library.framed);
}

#[test]
fn a_damaged_file_is_refused_or_read_as_something_else() {
    let whole = std::fs::read(mapped("/libgcc_s.so")).expect("a file");
    let file = object::File::parse(&*whole).expect("an ELF file");
    let (start, length) =
        file.section_by_name(".eh_frame").and_then(|section| section.file_range()).expect("it has one");
    for step in (0..length as usize).step_by(97) {
        for byte in [0, 0xff, whole[start as usize + step] ^ 0x10] {
            let mut damaged = whole.clone();
            damaged[start as usize + step] = byte;
            if let Some(rules) = UnwindRules::parse(&damaged) {
                assert!(rules.rows.is_sorted_by(|a, b| a >> 32 < b >> 32));
            }
        }
    }
    for length in (0..whole.len()).step_by(1009) {
        let _ = UnwindRules::parse(&whole[..length]);
    }
    assert_eq!(UnwindRules::parse(b"\x7fELF and no more"), None);
}
