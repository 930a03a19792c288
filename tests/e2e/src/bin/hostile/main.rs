//! A hostile process that looks like a .NET process: `hostile MANNER`. It listens like a runtime, prints `ready`, and runs until its
//! input ends. (A preloaded library named `libcoreclr.so` makes it look like one.)
#![forbid(unsafe_code)]
// `ready` goes to standard output, as for all targets.
#![allow(clippy::print_stdout)]

mod events;
mod watch;

use remora_ring::{HEADER_WORDS, Ring};
use remora_wire::{AgentErrorCode, Config, Frame, FromAgent, Message, MethodKind, Place, ToAgent, TypeKind, layout};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::fs::File;
use std::io::{Error, IoSliceMut, Read, Result, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// Magic, size, command set, command, two reserved bytes.
const HEADER: usize = 20;
const MAGIC: &[u8] = b"DOTNET_IPC_V1\0";
/// Commands: set and id.
const ATTACH: [u8; 2] = [3, 1];
const WHO_ARE_YOU: [u8; 2] = [4, 0];
const STOP_TRACING: [u8; 2] = [2, 1];
/// Ids of answers.
const DONE: u8 = 0;
const FAILED: u8 = 0xFF;
const UNKNOWN_COMMAND: u32 = 0x8013_1385;
/// Set of the commands that start and stop an event stream.
const EVENTS: u8 = 2;

/// Numbers that overflow sums and offsets.
const NUMBERS: [u64; 6] = [0, 1, 1 << 32, i64::MAX as u64, 1 << 63, u64::MAX];

/// The first kernel address.
const NOWHERE: u64 = 0xffff_8000_0000_0000;

/// Rings full of births in one GC.
const ROUNDS: u64 = 2;

/// Threads that make `/proc/PID/maps` long.
const THREADS: u32 = 500;

/// The hostile behaviour.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Its event stream is invalid and endless.
    Unreadable,
    /// Its event stream is valid and endless.
    Endless,
    /// Its event stream is valid and short, and its only name repeats a long part.
    Named,
    /// Its agent starts, and then sends nothing.
    Silent,
    /// Its agent reports a heap walk in a copy, counts some objects, and then sends nothing.
    HalfWay,
    /// Its recording agent keeps the ring full.
    Flooding,
    /// The same, with expensive records: their addresses are in none of its many mappings.
    Expensive,
    /// The same with samples, which the recorder stores.
    Growing,
    /// Says nothing but samples, each with another stack.
    Branching,
    /// The same with one stack of thousands of methods, which repeats without end.
    Deep,
    /// Its heap agent keeps the ring full.
    FloodingHeap,
    /// Its agent of heap tracking reports a GC with millions of new objects.
    Bearing,
    /// Its agent of heap tracking had no room for the end of the GC of the first last snapshot.
    Unheard,
    /// It loads no library, and prints the requested one.
    Refusing,
    /// All its agent's messages and names contain terminal control sequences.
    Coloured,
    /// Its agent sends arbitrary numbers.
    Scrambled,
}

/// Clears the screen, sets the window title, starts a line, has a C1 character, and reverses the following text.
const COLOURED: &str = "\u{1b}[2J\u{1b}]0;mine\u{7}\r\nleft: nothing\u{9b}31m\u{202e}";

fn main() -> Result<()> {
    let manner = match std::env::args().nth(1).as_deref() {
        Some("unreadable") => Manner::Unreadable,
        Some("endless") => Manner::Endless,
        Some("named") => Manner::Named,
        Some("silent") => Manner::Silent,
        Some("half-way") => Manner::HalfWay,
        Some("flooding") => Manner::Flooding,
        Some("expensive") => Manner::Expensive,
        Some("growing") => Manner::Growing,
        Some("branching") => Manner::Branching,
        Some("deep") => Manner::Deep,
        Some("flooding-heap") => Manner::FloodingHeap,
        Some("bearing") => Manner::Bearing,
        Some("unheard") => Manner::Unheard,
        Some("refusing") => Manner::Refusing,
        Some("coloured") => Manner::Coloured,
        Some("scrambled") => Manner::Scrambled,
        _ => return Err(Error::other("which manner?")),
    };
    let socket = socket_path()?;
    let listener = UnixListener::bind(&socket)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that disconnects has had enough.
            std::thread::spawn(move || serve(manner, stream));
        }
    });
    println!("ready");
    while std::io::stdin().read(&mut [0; 64])? > 0 {}
    std::fs::remove_file(socket)
}

/// The socket path of a runtime with our id and start time.
fn socket_path() -> Result<PathBuf> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let start = fields.split(' ').nth(19).ok_or_else(|| Error::other("no start time"))?;
    Ok(std::env::temp_dir().join(format!("dotnet-diagnostic-{}-{start}-socket", std::process::id())))
}

fn serve(manner: Manner, mut stream: UnixStream) -> Result<()> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let mut payload = vec![0; usize::from(u16::from_le_bytes([header[14], header[15]])).saturating_sub(HEADER)];
    stream.read_exact(&mut payload)?;
    match [header[16], header[17]] {
        ATTACH => attach(manner, stream, &payload),
        // Never answered, and kept open until the other end closes.
        STOP_TRACING => {
            println!("asked to stop");
            stream.read(&mut [0]).map(drop)
        }
        [EVENTS, _] => {
            answer(&mut stream, DONE, &1_u64.to_le_bytes())?;
            events::send(manner, stream)
        }
        WHO_ARE_YOU => answer(&mut stream, DONE, &who_i_am()),
        _ => answer(&mut stream, FAILED, &UNKNOWN_COMMAND.to_le_bytes()),
    }
}

fn answer(stream: &mut UnixStream, outcome: u8, payload: &[u8]) -> Result<()> {
    let length = ((HEADER + payload.len()) as u16).to_le_bytes();
    stream.write_all(&[MAGIC, &length, &[0xFF, outcome, 0, 0], payload].concat())
}

/// Process id, runtime cookie, command line, operating system, CPU architecture.
fn who_i_am() -> Vec<u8> {
    let text = [2, 0, 0, 0, b'x', 0, 0, 0];
    [&u64::from(std::process::id()).to_le_bytes()[..], &[0; 16], &text, &text, &text].concat()
}

/// Plays the agent on a separate connection, and answers like a runtime with a successful attach.
fn attach(manner: Manner, mut runtime: UnixStream, payload: &[u8]) -> Result<()> {
    // Timeout, class, and the path: its length in UTF-16 units, and these.
    let units = payload.get(20..24).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
    if manner == Manner::Refusing {
        let path = payload.get(24..24 + 2 * units).unwrap_or_default();
        let letters = path.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        println!("asked to load {}", char::decode_utf16(letters).flatten().collect::<String>());
        return answer(&mut runtime, FAILED, &UNKNOWN_COMMAND.to_le_bytes());
    }
    let data = payload.get(24 + 2 * units + 4..).ok_or_else(|| Error::other("no client data"))?;
    let config = Config::decode(data).map_err(|_| Error::other("other client data"))?;
    let mut agent = UnixStream::connect(&config.socket_path)?;
    agent.write_all(&FromAgent::Hello { version: remora_wire::VERSION, nonce: config.nonce }.encode())?;
    let memory = welcomed(&agent)?;
    answer(&mut runtime, DONE, &[0; 4])?;
    agent.write_all(
        &FromAgent::Started { signal: 0, thread: std::process::id(), threads: 1, time: 0, engine: engine(manner) }
            .encode(),
    )?;
    if manner == Manner::Scrambled {
        memory.write_all_at(&ring_of(scrambled()), message_place())?;
        // The counters precede the rings.
        memory.write_all_at(&[0xff; 8 * (layout::HEAP_STAYS_SHARED + 1 - layout::TAKEN)], layout::TAKEN as u64 * 8)?;
        return agent.write_all(&FromAgent::Failed(AgentErrorCode::Panicked.into()).encode());
    }
    if manner == Manner::Coloured {
        memory.write_all_at(&ring_of(coloured().iter().map(Message::encode)), message_place())?;
        // Whoever is told that it failed takes what is in the ring, and hears that it is gone.
        return agent.write_all(&FromAgent::Failed(AgentErrorCode::Panicked.into()).encode());
    }
    let flood = match manner {
        // Not a valid message, and so short that reading it takes longer than writing it.
        Manner::Flooding => Some((ring_of(std::iter::repeat_with(|| vec![8])), message_place())),
        Manner::Expensive => {
            // Each stack is a mapping, and so is its guard page.
            (0..THREADS).for_each(|_| drop(std::thread::spawn(std::thread::park)));
            Some((ring_of(expensive()), message_place()))
        }
        Manner::Growing => {
            let sample = Message::Sample { thread: 1, time: 0, weight: 1, flags: 0, addresses: vec![0x1000] };
            Some((ring_of(std::iter::repeat_with(|| sample.encode())), message_place()))
        }
        Manner::Deep => Some((ring_of(deep()), message_place())),
        Manner::FloodingHeap => Some((heap_ring(), layout::heap(HEADER_WORDS).start as u64 * 8)),
        _ => None,
    };
    if let Some((ring, place)) = flood {
        // Overwrites the records repeatedly. Without the ring's positions, which only the reader changes then, each record is followed by another.
        let skipped = if matches!(manner, Manner::Growing | Manner::Deep) { 0 } else { HEADER_WORDS * 8 };
        let (ring, place) = (ring[skipped..].to_vec(), place + skipped as u64);
        std::thread::spawn(move || while memory.write_all_at(&ring, place).is_ok() {});
    } else if manner == Manner::Branching {
        let mut random = 1;
        let place = message_place();
        std::thread::spawn(move || while memory.write_all_at(&ring_of(branching(&mut random)), place).is_ok() {});
    } else if manner == Manner::Bearing {
        watch::bear(&mut agent, &memory, ROUNDS)?;
    } else if manner == Manner::Unheard {
        return watch::lose_the_last_one_once(&mut agent, &memory);
    } else if manner == Manner::HalfWay {
        agent.write_all(&FromAgent::Forked { child: 0, collection: 1, fork: 1, at: 0 }.encode())?;
        memory.write_all_at(&5_u64.to_le_bytes(), layout::HEAP_OBJECTS as u64 * 8)?;
    }
    // It answers nothing from here on.
    println!("silent from now on");
    let mut heard = [0; 64];
    while agent.read(&mut heard)? > 0 {}
    Ok(())
}

fn engine(manner: Manner) -> String {
    if manner == Manner::Coloured { COLOURED } else { "none" }.to_owned()
}

/// A thread, a method and a sample with terminal control sequences in their names.
fn coloured() -> [Message; 5] {
    let (thread, name, address) = (1, COLOURED.to_owned(), 0x1000);
    [
        Message::Module { index: 0, path: format!("/{COLOURED}.dll"), mvid: None },
        Message::Thread { thread, name: name.clone() },
        Message::Method { index: 0, kind: MethodKind::Named { module: Some(0), name } },
        Message::Address { address, place: Place::Managed { method: 0, il_offset: None } },
        Message::Sample { thread, time: 0, weight: 1_000_000, flags: 0, addresses: vec![address] },
    ]
}

/// Messages of each kind, with each word replaced in turn by numbers that overflow sums and offsets.
fn scrambled() -> Vec<Vec<u64>> {
    let class = TypeKind::Class { module: 0, token: 0x0200_0002, arguments: vec![0] };
    let token = MethodKind::Token { module: 0, token: 1, class_arguments: vec![0], arguments: vec![0], names: None };
    let times = [
        Message::Type { index: 0, kind: class },
        Message::Type { index: 1, kind: TypeKind::Array { element: Some(1), rank: 2, element_kind: 0x12 } },
        Message::Method { index: 1, kind: token },
        Message::Address { address: 0x2000, place: Place::Managed { method: 1, il_offset: Some(7) } },
        Message::Repeat { thread: 1, time: 1, weight: 1 },
        Message::ThreadTime { thread: 1, used: 1 },
        Message::ProcessTime { time: 1, is_last: true, process: 1, agent: 1, unfollowed: 1 },
    ];
    let all: Vec<Vec<u64>> = coloured().iter().chain(&times).map(Message::encode).collect();
    let mut scrambled = all.clone();
    for record in &all {
        for (at, number) in (0..record.len()).flat_map(|at| NUMBERS.map(|number| (at, number))) {
            let mut other = record.clone();
            other[at] = number;
            scrambled.push(other);
        }
    }
    scrambled
}

/// Samples of unmapped addresses, each used once.
fn expensive() -> impl Iterator<Item = Vec<u64>> {
    (NOWHERE..).step_by(100).map(|first| {
        let addresses = (first..first + 100).collect();
        Message::Sample { thread: 1, time: 1, weight: 1, flags: 0, addresses }.encode()
    })
}

/// Methods, each with an address from [`NOWHERE`] on.
fn described(methods: u32) -> impl Iterator<Item = Message> {
    (0..methods).flat_map(|index| {
        let kind = MethodKind::Named { module: None, name: format!("M{index}") };
        let place = Place::Managed { method: index, il_offset: None };
        [Message::Method { index, kind }, Message::Address { address: NOWHERE + u64::from(index), place }]
    })
}

/// Samples with arbitrary stacks of a few methods, as from a recursive program.
fn branching(random: &mut u64) -> impl Iterator<Item = Vec<u64>> {
    const METHODS: u32 = 48;
    const DEPTH: usize = 200;
    let mut address = || {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        NOWHERE + (*random >> 33) % u64::from(METHODS)
    };
    let samples = std::iter::repeat_with(move || {
        let addresses = (0..DEPTH).map(|_| address()).collect();
        Message::Sample { thread: 1, time: 0, weight: 1, flags: 0, addresses }
    });
    described(METHODS).chain(samples).map(|message| message.encode())
}

/// A sample whose stack has many methods, and then its repeats.
fn deep() -> impl Iterator<Item = Vec<u64>> {
    const DEPTH: u32 = 8000;
    let addresses = (NOWHERE..NOWHERE + u64::from(DEPTH)).collect();
    let sample = Message::Sample { thread: 1, time: 0, weight: 1, flags: 0, addresses };
    let repeats = std::iter::repeat_with(|| Message::Repeat { thread: 1, time: 1, weight: 1 });
    described(DEPTH).chain([sample]).chain(repeats).map(|message| message.encode())
}

/// Offset of the message ring in the shared memory, bytes.
fn message_place() -> u64 {
    layout::messages(false, HEADER_WORDS).start as u64 * 8
}

/// A ring filled with these records.
fn ring_of(records: impl IntoIterator<Item = Vec<u64>>) -> Vec<u8> {
    filled(layout::messages(false, HEADER_WORDS), |ring| {
        let _full = records.into_iter().find(|record| ring.push(&[record]).is_err());
    })
}

/// A ring filled with pieces of a heap stream.
fn heap_ring() -> Vec<u8> {
    let piece = [0; 1 << 12];
    filled(layout::heap(HEADER_WORDS), |ring| while ring.push_bytes(piece.len() as u64, &piece).is_ok() {})
}

fn filled(place: Range<usize>, fill: impl FnOnce(&Ring)) -> Vec<u8> {
    let words: Vec<AtomicU64> = place.map(|_| AtomicU64::new(0)).collect();
    if let Some(ring) = Ring::new(&words) {
        fill(&ring);
        // Otherwise the reader would find the end of the ring empty.
        let rest = words.len() - HEADER_WORDS - ring.used();
        let _filled = ring.push(&[&vec![8; rest.saturating_sub(1)]]);
    }
    words.into_iter().flat_map(|word| word.into_inner().to_le_bytes()).collect()
}

/// The shared memory, received with the answer to the hello; a table may precede it.
fn welcomed(agent: &UnixStream) -> Result<File> {
    let mut frame = Frame::default();
    loop {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut bytes = [0; 64];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let length = recvmsg(agent, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::empty())?.bytes;
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        frame.push(&bytes[..length]);
        match (frame.take().ok().flatten().map(|body| ToAgent::decode(body.all())), descriptor) {
            (Some(Ok(ToAgent::Welcome)), Some(memory)) => return Ok(memory.into()),
            (Some(Ok(ToAgent::Unwind)), Some(_)) => {}
            _ => return Err(Error::other("no memory came")),
        }
    }
}
