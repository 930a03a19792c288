//! The runtime's own heap dump, requested as by `dotnet-gcdump collect`, and summed by type.
//!
//! Event layouts from the runtime's manifest (ClrEtwAll.man: BulkType, GCBulkNode, GCBulkEdge, GCEnd).

use remora_attach::{EventPipeConfig, EventPipeSession, Provider, Rundown, Stacks};
use remora_nettrace::{Event, Parser, Sink, Trace};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

const PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";
/// GCs, types, and the heap with its roots (dotnet/diagnostics, `EventPipeDotNetHeapDumper`).
const KEYWORDS: u64 = 0x198_0001;
/// GCs alone.
const COLLECTIONS: u64 = 0x1;
const VERBOSE: u32 = 5;
const BUFFER_MEBIBYTES: u32 = 256;
/// Time between two checks of the clock.
const STEP: Duration = Duration::from_millis(100);

const COLLECTION_ENDS: u32 = 2;
const TYPES: u32 = 15;
const OBJECTS: u32 = 18;

/// In the flags of a type: the array bit, and shift and mask of the rank.
const ARRAY: u32 = 0x8;
const RANK: (u32, u32) = (8, 0x3f);

/// Types of an assembly loaded from bytes. A snapshot has no names for them, since there is no file to read them from.
const IN_NO_FILE: [&str; 2] = ["Loaded.Stray", "Loaded.Lone"];

/// The sums for a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Sum {
    pub count: u64,
    pub bytes: u64,
    pub references: u64,
}

impl Sum {
    /// Adds one object.
    pub fn add(&mut self, bytes: u64, references: u64) {
        self.join(Sum { count: 1, bytes, references });
    }

    /// Whether each of its numbers is between those of two others.
    pub fn is_between(self, one: Sum, other: Sum) -> bool {
        let numbers = |sum: Sum| [sum.count, sum.bytes, sum.references];
        let ends = numbers(one).into_iter().zip(numbers(other));
        numbers(self).into_iter().zip(ends).all(|(own, (one, other))| (one.min(other)..=one.max(other)).contains(&own))
    }

    /// Adds another sum.
    pub fn join(&mut self, other: Sum) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.references += other.references;
    }
}

#[derive(Debug)]
struct Described {
    token: u32,
    flags: u32,
    name: String,
    arguments: Vec<u64>,
}

/// A dump in progress.
#[derive(Debug, Default)]
pub struct Dump {
    types: BTreeMap<u64, Described>,
    sums: BTreeMap<u64, Sum>,
    dropped: u64,
    has_ended: bool,
}

impl Dump {
    /// Takes a dump of a process. Before .NET 5 the runtime describes each type only in the first one.
    pub fn of(process_id: u32) -> Dump {
        Dump::collected(process_id, KEYWORDS, |dump| dump.has_ended)
    }

    /// A session without a dump, so that everything the runtime allocates for its first session exists afterwards.
    pub fn rehearse(process_id: u32) {
        Dump::collected(process_id, COLLECTIONS, |_| true);
    }

    fn collected(process_id: u32, keywords: u64, is_enough: impl Fn(&Dump) -> bool) -> Dump {
        let mut session = begun(process_id, keywords);
        let (mut parser, mut dump) = (Parser::new(), Dump::default());
        let (mut piece, end) = (vec![0; 1 << 20], Instant::now() + remora_e2e::TIMEOUT);
        let mut is_stopping = false;
        while !parser.ended() {
            assert!(Instant::now() < end, "the session did not end");
            if is_enough(&dump) && !is_stopping {
                session.stop(remora_e2e::TIMEOUT).expect("the session is asked to end");
                is_stopping = true;
            }
            match session.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => parser.push(piece[..count].into(), &mut dump).expect("a stream of events"),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => panic!("the stream broke off: {error}"),
            }
        }
        session.finish(remora_e2e::TIMEOUT).expect("the session has ended");
        assert_eq!(dump.dropped, 0, "the runtime has dropped events");
        dump
    }

    /// The sums by type, with names in short form: see [`short`].
    pub fn by_short_name(&self) -> BTreeMap<String, Sum> {
        let mut sums = BTreeMap::<String, Sum>::new();
        for (id, sum) in &self.sums {
            sums.entry(self.short(*id)).or_default().join(*sum);
        }
        sums
    }

    /// For a nested type the runtime reports only its own name, `Inner`1[Kinds.Leaf,Kinds.Plain]`, with all type arguments.
    fn short(&self, id: u64) -> String {
        let Some(described) = self.types.get(&id) else { return format!("type {id:#x}") };
        let Described { token, flags, name, arguments } = described;
        if IN_NO_FILE.contains(&name.as_str()) {
            return format!("[unnamed type {token:#010x}]");
        }
        let arguments: Vec<String> = arguments.iter().map(|argument| self.short(*argument)).collect();
        if flags & ARRAY != 0 && arguments.concat().starts_with("[unnamed") {
            return "[unnamed array]".to_owned();
        }
        if flags & ARRAY != 0 {
            let rank = (flags >> RANK.0 & RANK.1).max(1) as usize;
            return bracketed(&arguments.concat(), &format!("[{}]", ",".repeat(rank - 1)));
        }
        let name = name.split(['`', '[']).next().unwrap_or(name);
        with_arguments(name.rsplit('.').next().unwrap_or(name), &arguments)
    }
}

/// The short form of a name in C#: without namespace and enclosing types, all type arguments at the end, no C# keywords.
pub fn short(name: &str) -> String {
    let name = name.trim();
    if let Some(inner) = name.strip_suffix('?') {
        return with_arguments("Nullable", &[short(inner)]);
    }
    if let Some(items) = name.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return short(&format!("ValueTuple<{items}>"));
    }
    let brackets = name.ends_with(']').then(|| name[name.rfind('>').unwrap_or(0)..].find('[')).flatten();
    if let Some(begin) = brackets.map(|begin| begin + name.rfind('>').unwrap_or(0)) {
        return format!("{}{}", short(&name[..begin]), &name[begin..]);
    }
    let (mut own, mut arguments, mut depth, mut begun) = (String::new(), Vec::new(), 0, 0);
    for (at, letter) in name.char_indices() {
        match letter {
            '.' if depth == 0 => own.clear(),
            // At the start it belongs to the name: `<>c`.
            '<' | '(' if depth > 0 || !own.is_empty() && !own.starts_with('<') => {
                depth += 1;
                begun = if depth == 1 { at + 1 } else { begun };
            }
            '>' | ',' if depth == 1 => {
                arguments.push(short(&name[begun..at]));
                begun = at + 1;
                depth -= i32::from(letter == '>');
            }
            '>' | ')' if depth > 1 => depth -= 1,
            _ if depth == 0 => own.push(letter),
            _ => {}
        }
    }
    let word = WORDS.iter().find(|(_, word)| *word == own);
    with_arguments(word.map_or(&own, |(name, _)| name), &arguments)
}

/// Types with C# keywords.
const WORDS: [(&str, &str); 15] = [
    ("Boolean", "bool"),
    ("Byte", "byte"),
    ("Char", "char"),
    ("Double", "double"),
    ("Int16", "short"),
    ("Int32", "int"),
    ("Int64", "long"),
    ("IntPtr", "nint"),
    ("Object", "object"),
    ("SByte", "sbyte"),
    ("Single", "float"),
    ("String", "string"),
    ("UInt16", "ushort"),
    ("UInt32", "uint"),
    ("UInt64", "ulong"),
];

fn with_arguments(name: &str, arguments: &[String]) -> String {
    if arguments.is_empty() { name.to_owned() } else { format!("{name}<{}>", arguments.join(", ")) }
}

/// C# writes the outermost array first.
fn bracketed(element: &str, brackets: &str) -> String {
    let end = element.rfind('>').map_or(0, |end| end + 1);
    let begin = element[end..].find('[').map_or(element.len(), |begin| end + begin);
    format!("{}{brackets}{}", &element[..begin], &element[begin..])
}

fn begun(process_id: u32, keywords: u64) -> EventPipeSession {
    let process = remora_attach::find(process_id).expect("the process is there");
    let provider = Provider { name: PROVIDER.to_owned(), keywords, level: VERBOSE, filter: String::new() };
    let config = EventPipeConfig {
        buffer_mebibytes: BUFFER_MEBIBYTES,
        rundown: Rundown::None,
        stacks: Stacks::Walked,
        providers: vec![provider],
    };
    let session = EventPipeSession::start(&process, &config).expect("a session");
    session.wait_at_most(Some(STEP)).expect("a limit");
    session
}

impl Sink for Dump {
    fn trace(&mut self, _: &Trace) {}

    fn event(&mut self, event: &Event<'_>) {
        if event.event_type.provider != PROVIDER {
            return;
        }
        let mut payload = Fields(event.payload);
        match event.event_type.id {
            TYPES => self.types(&mut payload),
            OBJECTS => self.objects(&mut payload),
            COLLECTION_ENDS => self.has_ended |= !self.sums.is_empty(),
            _ => {}
        }
    }

    fn dropped(&mut self, _: u64, count: u64) {
        self.dropped += count;
    }
}

impl Dump {
    fn types(&mut self, payload: &mut Fields<'_>) {
        let (count, _instance) = (payload.u32(), payload.u16());
        for _ in 0..count {
            let (id, _module, token, flags, _element) =
                (payload.u64(), payload.u64(), payload.u32(), payload.u32(), payload.u8());
            let name = payload.text();
            let arguments = (0..payload.u32()).map(|_| payload.u64()).collect();
            self.types.insert(id, Described { token, flags, name, arguments });
        }
    }

    fn objects(&mut self, payload: &mut Fields<'_>) {
        let (_index, count, _instance) = (payload.u32(), payload.u32(), payload.u16());
        for _ in 0..count {
            let (_address, bytes, class, references) = (payload.u64(), payload.u64(), payload.u64(), payload.u64());
            self.sums.entry(class).or_default().add(bytes, references);
        }
    }
}

/// The fields of an event in order.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_first_chunk().expect("the event is as long as its layout says");
        self.0 = rest;
        *taken
    }

    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// A zero-terminated UTF-16 string.
    fn text(&mut self) -> String {
        let units: Vec<u16> = std::iter::from_fn(|| Some(self.u16()).filter(|unit| *unit != 0)).collect();
        String::from_utf16_lossy(&units)
    }
}
