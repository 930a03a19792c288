//! Compiles the `.eh_frame` of a native module into rows that a signal handler can search.
//!
//! A row holds the CFA by RSP or RBP, and the place of the saved RBP: enough for almost all x64 code. It also holds the DWARF expressions
//! that real compilers and assembly code use. Any other expression makes the row *unknown*.

use crate::elf_file::{Segment, is_code, open, section, segments};
use crate::unwind::{ADDRESS_SIZE, Function, each_entry};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, Encoding, EndianSlice, Format, Operation, Register, RegisterRule, RunTimeEndian,
    UnwindContext, UnwindExpression, UnwindTableRow, X86_64,
};
use object::{Architecture, Object};
use remora_wire::unwind::{Rule, row};
use std::time::{Duration, Instant};

/// A real module has fewer rows (libcoreclr of .NET 10: 79,000).
const ROW_LIMIT: usize = 1 << 21;

/// Maximum bytes of entries to evaluate. Shared parts count with each entry: a hostile file could make the work quadratic.
const WORK_LIMIT: usize = 1 << 26;

/// Maximum bytes of one entry, with its shared part. One byte can cost a copy of kilobytes (`DW_CFA_remember_state`). Longer ones have no
/// rules; the longest of real modules have some kilobytes.
const ENTRY_LIMIT: usize = 1 << 16;

/// Maximum time for a module: the 79,000 rows of libcoreclr take 30 ms.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Nothing executes the fill bytes between two functions. A longer gap is code without an entry.
const LONGEST_FILL: u64 = 16;

/// If entries cover less than one part in this many of a module's code, it counts as a module without entries. Distributions build musl
/// without them, and link parts of libgcc that have some.
const LEAST_COVERED: u64 = 16;

type Section<'a> = EhFrame<EndianSlice<'a, RunTimeEndian>>;

/// The rows of one module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnwindRules {
    /// In the format of [`remora_wire::unwind`], relative to the file's own address 0.
    pub rows: Vec<u64>,
    /// Whether nearly all functions with a frame keep its address in RBP.
    pub framed: bool,
    /// The code segments of the file: address, offset in the file, bytes.
    pub code: Vec<(u64, u64, u64)>,
}

impl UnwindRules {
    /// Parses the unwind rules of a file; `None` for anything but a 64-bit ELF file for x64 within the limits of a real module.
    pub fn parse(bytes: &[u8]) -> Option<UnwindRules> {
        let file = open(bytes).ok()?;
        if file.architecture() != Architecture::X86_64 {
            return None;
        }
        let code: Vec<Segment> = segments(&file).into_iter().filter(|segment| segment.executable).collect();
        let compiled = match section(&file, ".eh_frame") {
            Some((address, table, _)) => compile(table, address, &code)?,
            None => UnwindRules::default(),
        };
        let code = code.iter().map(|part| (part.address, part.offset, part.file_size)).collect();
        Some(UnwindRules { code, ..compiled })
    }
}

/// The rule of an entry for a range of addresses.
struct Span {
    start: u64,
    end: u64,
    rule: Rule,
}

fn compile(bytes: &[u8], address: u64, code: &[Segment]) -> Option<UnwindRules> {
    let mut table = EhFrame::new(bytes, RunTimeEndian::Little);
    table.set_address_size(ADDRESS_SIZE);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut context = UnwindContext::new();
    let (mut spans, mut work, begun) = (Vec::new(), 0, Instant::now());
    let is_too_much =
        |work: usize, spans: &Vec<Span>| work > WORK_LIMIT || spans.len() > ROW_LIMIT || begun.elapsed() > TIME_LIMIT;
    let (mut with_frame, mut framed) = (0_usize, 0_usize);
    each_entry(&table, &bases, |function| {
        let length = function.entry_len().saturating_add(function.cie().entry_len());
        work += length;
        if is_too_much(work, &spans) {
            return false;
        }
        if length <= ENTRY_LIMIT && is_code(code, function.initial_address(), function.len()) {
            let before = spans.len();
            rules_of(&table, &bases, &mut context, &function, &mut spans);
            let own = spans.get(before..).unwrap_or_default();
            let by_frame = own.iter().any(|span| matches!(span.rule, Rule::Frame { .. } | Rule::Realigned { .. }));
            with_frame += usize::from(by_frame || own.iter().any(|span| !is_bare(span.rule)));
            framed += usize::from(by_frame);
        }
        true
    });
    if is_too_much(work, &spans) {
        return None;
    }
    let covered = spans.iter().fold(0, |sum: u64, span| sum.saturating_add(span.end - span.start));
    if covered < code.iter().fold(0, |sum: u64, part| sum.saturating_add(part.file_size)) / LEAST_COVERED {
        return Some(UnwindRules::default());
    }
    spans.sort_by_key(|span| span.start);
    Some(UnwindRules { rows: rows(&spans), framed: with_frame > 0 && framed * 10 >= with_frame * 9, code: Vec::new() })
}

/// Whether nothing but the return address is on the stack.
fn is_bare(rule: Rule) -> bool {
    matches!(rule, Rule::Stack { cfa: 8, .. } | Rule::Unknown | Rule::Linkage { .. } | Rule::End | Rule::Signal)
}

/// Spans in ascending order as rows. Gaps are unknown; equal neighbours are one row.
fn rows(spans: &[Span]) -> Vec<u64> {
    let mut rows: Vec<u64> = Vec::new();
    let mut put = |start: u64, rule: Rule| {
        // No compiler makes a module of more than 4 GiB.
        let Ok(start) = u32::try_from(start) else { return };
        while rows.last().is_some_and(|last| (last >> 32) as u32 >= start) {
            rows.pop();
        }
        let word = row(start, rule);
        if rows.last().is_none_or(|last| *last as u32 != word as u32) {
            rows.push(word);
        }
    };
    let mut end: Option<u64> = None;
    for span in spans {
        if let Some(end) = end.filter(|end| span.start.saturating_sub(*end) >= LONGEST_FILL) {
            put(end, Rule::Unknown);
        }
        put(span.start, span.rule);
        end = Some(span.end);
    }
    if let Some(end) = end {
        put(end, Rule::Unknown);
    }
    rows.shrink_to_fit();
    rows
}

/// Adds the spans of one function's entry; of a damaged one, none.
fn rules_of<'a>(
    table: &Section<'a>,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    function: &Function<'a>,
    spans: &mut Vec<Span>,
) {
    let before = spans.len();
    let Ok(mut all) = function.rows(table, bases, context) else { return };
    loop {
        match all.next_row() {
            Ok(Some(row)) if row.start_address() < row.end_address() => {
                let rule = if function.is_signal_trampoline() { signal(table, row) } else { rule(table, row) };
                spans.push(Span { start: row.start_address(), end: row.end_address(), rule });
                if spans.len() > ROW_LIMIT {
                    return;
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(_) => return spans.truncate(before),
        }
    }
}

fn rule(table: &Section<'_>, row: &UnwindTableRow<usize>) -> Rule {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Rule::End,
        Some(RegisterRule::Offset(-8)) => {}
        _ => return Rule::Unknown,
    }
    let saved = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Some(0),
        Some(RegisterRule::Offset(offset)) => u32::try_from(-offset).ok().filter(|saved| *saved > 8),
        Some(RegisterRule::Expression(expression)) if is_top_of_frame(table, &expression) => {
            return realigned(table, row);
        }
        _ => None,
    };
    let Some(saved) = saved else { return Rule::Unknown };
    match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => match (*register, u32::try_from(*offset)) {
            (X86_64::RSP, Ok(cfa)) if cfa >= 8 => Rule::Stack { cfa, saved },
            (X86_64::RBP, Ok(cfa)) if cfa >= 8 => Rule::Frame { cfa, saved },
            _ => Rule::Unknown,
        },
        CfaRule::Expression(expression) => match operations(table, expression).as_slice() {
            [Known::Register(X86_64::RSP, at), Known::Load, Known::Plus(8)] => {
                u32::try_from(*at).map_or(Rule::Unknown, |at| Rule::Stored { at, saved })
            }
            _ => linkage(table, expression),
        },
    }
}

/// The kernel's signal frame, as the C library describes it: the interrupted RSP is its word 20.
fn signal(table: &Section<'_>, row: &UnwindTableRow<usize>) -> Rule {
    const STACK_POINTER: i64 = 160;
    let CfaRule::Expression(expression) = row.cfa() else { return Rule::Unknown };
    match operations(table, expression).as_slice() {
        [Known::Register(X86_64::RSP, STACK_POINTER), Known::Load] => Rule::Signal,
        _ => Rule::Unknown,
    }
}

/// A function with a realigned stack keeps the CFA below its frame, and RBP at the frame.
fn realigned(table: &Section<'_>, row: &UnwindTableRow<usize>) -> Rule {
    let CfaRule::Expression(expression) = row.cfa() else { return Rule::Unknown };
    match operations(table, expression).as_slice() {
        [Known::Register(X86_64::RBP, offset), Known::Load] => {
            u32::try_from(-offset).map_or(Rule::Unknown, |below| Rule::Realigned { below })
        }
        _ => Rule::Unknown,
    }
}

fn is_top_of_frame(table: &Section<'_>, expression: &UnwindExpression<usize>) -> bool {
    matches!(operations(table, expression).as_slice(), [Known::Register(X86_64::RBP, 0)])
}

/// The linker's expression for the procedure linkage table: `rsp + 8 + ((rip & 15) >= pushed) * 8`.
fn linkage(table: &Section<'_>, expression: &UnwindExpression<usize>) -> Rule {
    const LITERAL_0: u8 = 0x30;
    let Ok(bytes) = expression.get(table) else { return Rule::Unknown };
    match *bytes.0.slice() {
        [0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, literal, 0x2a, 0x33, 0x24, 0x22] if literal & 0xf0 == LITERAL_0 => {
            Rule::Linkage { pushed: u32::from(literal - LITERAL_0) }
        }
        _ => Rule::Unknown,
    }
}

/// The operations that rows can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Register(Register, i64),
    Load,
    Plus(u64),
    Other,
}

/// The first operations of an expression; more than four have no meaning here.
fn operations(table: &Section<'_>, expression: &UnwindExpression<usize>) -> Vec<Known> {
    let encoding = Encoding { address_size: ADDRESS_SIZE, format: Format::Dwarf32, version: 5 };
    let Ok(expression) = expression.get(table) else { return Vec::new() };
    let mut all = expression.operations(encoding);
    std::iter::from_fn(|| all.next().unwrap_or(None))
        .take(4)
        .map(|operation| match operation {
            Operation::RegisterOffset { register, offset, .. } => Known::Register(register, offset),
            Operation::Deref { space: false, size: ADDRESS_SIZE, .. } => Known::Load,
            Operation::PlusConstant { value } => Known::Plus(value),
            _ => Known::Other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_row_and_gaps_are_unknown() {
        let (bare, pushed) = (Rule::Stack { cfa: 8, saved: 0 }, Rule::Stack { cfa: 16, saved: 16 });
        let span = |start, end, rule| Span { start, end, rule };
        for (spans, expected) in [
            (vec![], vec![]),
            (vec![span(0, 4, bare), span(4, 8, pushed)], vec![row(0, bare), row(4, pushed), row(8, Rule::Unknown)]),
            (vec![span(0, 4, bare), span(16, 20, bare)], vec![row(0, bare), row(20, Rule::Unknown)]),
            (
                vec![span(0, 4, bare), span(20, 24, bare)],
                vec![row(0, bare), row(4, Rule::Unknown), row(20, bare), row(24, Rule::Unknown)],
            ),
            // Where entries overlap, the one with the later start counts; for equal starts, the last one.
            (vec![span(0, 64, bare), span(8, 16, pushed)], vec![row(0, bare), row(8, pushed), row(16, Rule::Unknown)]),
            (vec![span(0, 8, bare), span(0, 8, pushed)], vec![row(0, pushed), row(8, Rule::Unknown)]),
            (vec![span(u64::MAX - 8, u64::MAX, bare)], vec![]),
        ] {
            assert_eq!(rows(&spans), expected);
        }
    }

    /// One entry behind its length, padded to whole words with no-ops.
    fn entry(table: &mut Vec<u8>, body: &[u8]) {
        let length = body.len().next_multiple_of(4);
        table.extend((length as u32).to_le_bytes());
        table.extend(body);
        table.resize(table.len() + length - body.len(), 0);
    }

    /// The rule of a function whose entry has these instructions, with the augmentation of the shared part.
    fn rule_of(augmentation: &[u8], instructions: &[u8]) -> Rule {
        const TABLE: u64 = 0x4000;
        let mut table = Vec::new();
        // Version 1; the return address is register 16; at first the CFA is RSP + 8, and the return address below it.
        let shared = [&[0, 0, 0, 0, 1], augmentation, &[0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1]].concat();
        entry(&mut table, &shared);
        let here = table.len() as u64 + 4;
        let start = 0x1000_u64.wrapping_sub(TABLE + here + 4) as u32;
        let function =
            [&(here as u32).to_le_bytes()[..], &start.to_le_bytes(), &[64, 0, 0, 0, 0], instructions].concat();
        entry(&mut table, &function);
        let compiled = |file_size| {
            let code = Segment { address: 0x1000, offset: 0, file_size, executable: true };
            compile(&table, TABLE, &[code]).expect("few rows")
        };
        assert_eq!(compiled(LEAST_COVERED * 64 + LEAST_COVERED).rows, [], "almost all of the code has no entry");
        compiled(64).rows.first().map_or(Rule::Unknown, |row| Rule::decode(*row as u32))
    }

    #[test]
    fn the_expressions_that_are_in_use_have_rules() {
        let usual = |instructions: &[u8]| rule_of(b"zR", instructions);
        assert_eq!(usual(&[]), Rule::Stack { cfa: 8, saved: 0 });
        assert_eq!(usual(&[0x0e, 16, 0x86, 2]), Rule::Stack { cfa: 16, saved: 16 });
        assert_eq!(usual(&[0x0c, 6, 16, 0x86, 2]), Rule::Frame { cfa: 16, saved: 16 });
        assert_eq!(usual(&[0x07, 16]), Rule::End);
        // OpenSSL: `*(rsp + 88) + 8`, and the same with another sum.
        assert_eq!(usual(&[0x0f, 6, 0x77, 0xd8, 0, 0x06, 0x23, 8, 0x86, 3]), Rule::Stored { at: 88, saved: 24 });
        assert_eq!(usual(&[0x0f, 6, 0x77, 0xd8, 0, 0x06, 0x23, 16, 0x86, 3]), Rule::Unknown);
        // A realigned stack: `*(rbp - 8)`, with RBP at its own address.
        let realigned = [0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0];
        assert_eq!(usual(&realigned), Rule::Realigned { below: 8 });
        assert_eq!(usual(&realigned[..5]), Rule::Unknown, "RBP is not where the frame is");
        let linkage = [0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(usual(&linkage), Rule::Linkage { pushed: 11 });
        // A signal frame has the augmentation `S`, and the place of the interrupted RSP.
        let signal = [0x0f, 4, 0x77, 0xa0, 1, 0x06];
        assert_eq!(rule_of(b"zRS", &signal), Rule::Signal);
        assert_eq!(rule_of(b"zRS", &[]), Rule::Unknown);
        // An entry of this length can cost seconds.
        assert_eq!(usual(&[0x0a, 0x0b].repeat(ENTRY_LIMIT / 4)), Rule::Stack { cfa: 8, saved: 0 });
        assert_eq!(usual(&[0x0a, 0x0b].repeat(ENTRY_LIMIT / 2)), Rule::Unknown);
        // CFA by a caller-saved register; return address elsewhere.
        assert_eq!(usual(&[0x0c, 10, 0]), Rule::Unknown);
        assert_eq!(usual(&[0x90, 2]), Rule::Unknown);
    }
}
