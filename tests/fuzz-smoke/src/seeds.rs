//! Valid inputs of the entries: damage to these reaches deeper than random bytes.

use remora_attach::codec::{ProcessInfoVersion, Request};
use remora_heap::layout::{Slot, SlotKind};
use remora_heap::{StaticContent, StaticField};
use remora_ring::HEADER_WORDS;
use remora_sampler::{Link, Links};
use remora_wire::{
    AgentErrorCode, Config, FromAgent, HeapSnapshot, Message, MethodKind, Place, Sampling, Task, ToAgent, TypeKind,
};
use std::sync::atomic::AtomicU64;

/// Modules whose PDBs are also fixtures; the second one has `lock` statements.
pub(crate) const NAMES_DLL: &[u8] = include_bytes!("../../../crates/host/symbols/fixtures/names.dll");
pub(crate) const LOCKS_DLL: &[u8] = include_bytes!("../../../crates/host/symbols/fixtures/locks.dll");
pub(crate) const LOCKS_PDB: &[u8] = include_bytes!("../../../crates/host/symbols/fixtures/locks.pdb");

pub(crate) fn messages() -> Vec<Vec<u8>> {
    let text = || "Größe.dll".to_owned();
    let class = TypeKind::Class { module: 1, token: 0x0200_0002, arguments: vec![1, 2, 3] };
    let token = |names| MethodKind::Token {
        module: 1,
        token: 0x0600_0007,
        class_arguments: vec![1],
        arguments: vec![2, 3],
        names,
    };
    let with_names = token(Some((text(), "Main".to_owned())));
    let named = MethodKind::Named { module: Some(2), name: text() };
    let managed = Place::Managed { method: 3, il_offset: Some(9) };
    let messages = [
        Message::Module { index: 1, path: text(), mvid: None },
        Message::Module { index: 2, path: text(), mvid: Some([7; 16]) },
        Message::Type { index: 1, kind: class },
        Message::Type { index: 2, kind: TypeKind::Array { element: Some(1), rank: 2, element_kind: 0x12 } },
        Message::Type { index: 3, kind: TypeKind::Unknown },
        Message::Method { index: 1, kind: token(None) },
        Message::Method { index: 3, kind: with_names },
        Message::Method { index: 2, kind: named },
        Message::Address { address: 0x7f00_1234, place: managed },
        Message::Address { address: 0x7f00_1235, place: Place::Native },
        Message::Thread { thread: 7, name: text() },
        Message::ThreadName { thread: 7, name: String::new() },
        Message::Sample { thread: 7, time: 1 << 40, weight: 10_101_010, flags: 9, addresses: vec![1, 2, 3, u64::MAX] },
        Message::Repeat { thread: 7, time: 1 << 41, weight: 10_101_010 },
        Message::ModuleId { id: 1 << 46, since: 2, index: Some(3) },
        Message::FunctionId { id: 1 << 45, method: 7 },
    ];
    messages.iter().map(|message| message.encode().iter().flat_map(|word| word.to_le_bytes()).collect()).collect()
}

/// A heap stream with every kind of record.
pub(crate) fn heaps() -> Vec<Vec<u8>> {
    use remora_heap_stream::{
        ARRAY_CLASS, BROKEN, CLASS, END, FIRST_CLASS, FORM, GAP, LENGTHY, PLAIN_CLASS, RANGE, UNKNOWN_CLASS, distance,
        written,
    };
    let numbers = [
        &[RANGE, 2, 0x1000, 96, CLASS, 0, UNKNOWN_CLASS, 0x8000_4005][..],
        &[CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0, 1, 0x71, CLASS, 0x71, ARRAY_CLASS, 0x70, 0x12, 1],
        &[FIRST_CLASS + 1, 22, distance(0x1000, 0x1018), 0, FIRST_CLASS + 2, 24, 0, GAP, 24],
        &[FORM, 1, 32, 2, FIRST_CLASS + 1, 0, distance(0x1048, 0x1000), LENGTHY, FIRST_CLASS + 1, 24, 0],
        &[BROKEN, 0x1080, END, 4],
    ];
    vec![written(&numbers.concat())]
}

/// Streams of graphs for queries: that of [`heaps`], and a second one. The second has a cycle, an object with two referrers, and one too
/// large for other tools' formats.
pub(crate) fn heap_graphs() -> Vec<Vec<u8>> {
    use remora_heap_stream::{CLASS, END, FIRST_CLASS, PLAIN_CLASS, RANGE, distance, written};
    const OBJECTS: u64 = 40;
    const SIZE: u64 = 32;
    let at = |number: u64| 0x1000 + number % OBJECTS * SIZE;
    let mut numbers = vec![RANGE, 2, at(0), OBJECTS * SIZE];
    for class in 0..4 {
        numbers.extend([CLASS, 0x70 + class, PLAIN_CLASS, 0x80, 0x0200_0002 + class, 0, 0]);
    }
    for number in 0..OBJECTS {
        let own = at(number);
        numbers.extend([FIRST_CLASS + number % 4, SIZE, distance(own, at(number + 1)), distance(own, at(7)), 0]);
    }
    numbers.extend([
        RANGE,
        3,
        1 << 32,
        5 << 30,
        FIRST_CLASS + 1,
        5 << 30,
        distance(1 << 32, at(0)),
        0,
        END,
        OBJECTS + 1,
    ]);
    [heaps(), vec![written(&numbers)]].concat()
}

pub(crate) fn configs() -> Vec<Vec<u8>> {
    let sampling = Sampling { frequency: 999, signal_budget: 2000 };
    let snapshot = HeapSnapshot {
        contents: remora_wire::Contents::Strings,
        moment: remora_wire::Moment::AsItIs,
        roots: remora_wire::Roots::Seen,
    };
    let config = |task| Config {
        nonce: *b"0123456789abcdef",
        socket_path: "/tmp/remora-0123456789abcdef.sock".to_owned(),
        task,
    };
    [Task::WallSampling(sampling), Task::HeapSnapshot(snapshot)].map(|task| config(task).encode()).into()
}

pub(crate) fn controls() -> Vec<Vec<u8>> {
    let to =
        [ToAgent::Welcome, ToAgent::Begin, ToAgent::SetFrequency(99), ToAgent::Detach].map(|message| message.encode());
    let engine = "thread timers".to_owned();
    let from = [
        FromAgent::Hello { version: remora_wire::VERSION, nonce: *b"0123456789abcdef" },
        FromAgent::Started { signal: 36, thread: 7, threads: 9, time: 1 << 40, engine },
        FromAgent::Inert(AgentErrorCode::NoFreeSignal.into()),
        FromAgent::Leaving { longest_callback: 5000, callbacks: 70, early_unloads: 0 },
        FromAgent::DetachRefused { code: 0x8013_1367 },
        FromAgent::Detached,
        FromAgent::Failed(AgentErrorCode::Panicked.into()),
    ]
    .map(|message| message.encode());
    let bodies = to.iter().chain(&from).map(|frame| frame[4..].to_vec());
    bodies.chain([to.concat(), from.concat()]).collect()
}

pub(crate) fn rings() -> Vec<Vec<u8>> {
    let mut words = vec![0_u64; HEADER_WORDS];
    // Head and tail are on separate cache lines; two records follow.
    (words[0], words[8]) = (7, 0);
    words.extend([4, 1, 2, 3, 3, 1, 2]);
    vec![words.iter().flat_map(|word| word.to_le_bytes()).collect()]
}

pub(crate) fn methods() -> Vec<Vec<u8>> {
    let framed = [0x55, 0x48, 0x83, 0xec, 0x20, 0x48, 0x8d, 0x6c, 0x24, 0x20, 0x90, 0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3];
    let frameless = [
        0x41, 0x56, 0x53, 0x48, 0x81, 0xec, 8, 1, 0, 0, 0x8b, 0xc7, 0x48, 0x81, 0xc4, 8, 1, 0, 0, 0x5b, 0x41, 0x5e,
        0xc3,
    ];
    let at = |offset: u8, code: &[u8]| [&[offset], code].concat();
    (0..18).map(|offset| at(offset, &framed)).chain((0..24).map(|offset| at(offset, &frameless))).collect()
}

pub(crate) fn diagnostics() -> Vec<Vec<u8>> {
    let mut answer = b"DOTNET_IPC_V1\0".to_vec();
    let payload: Vec<u8> = process_information();
    answer.extend((20 + payload.len() as u16).to_le_bytes());
    answer.extend([0xff, 0, 0, 0]);
    answer.extend(&payload);
    let requests =
        [ProcessInfoVersion::One, ProcessInfoVersion::Two, ProcessInfoVersion::Three].map(Request::ProcessInfo);
    let mut seeds: Vec<Vec<u8>> = requests.iter().filter_map(|request| request.encode().ok()).collect();
    let advertised = [&b"ADVR_V1\0"[..], &[7; 16], &4711_u64.to_le_bytes(), &[0, 0]].concat();
    seeds.extend([answer, payload, advertised]);
    seeds
}

/// Id, cookie, and strings with their lengths, as in a runtime's answer.
fn process_information() -> Vec<u8> {
    let mut payload = 4711_u64.to_le_bytes().to_vec();
    payload.extend([7; 16]);
    for text in ["dotnet app.dll", "Linux", "x64", "app", "8.0.4"] {
        payload.extend((text.len() as u32 + 1).to_le_bytes());
        payload.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    }
    payload
}

/// Static fields: an object, a boxed value, and a number.
fn static_fields() -> [StaticField; 3] {
    let field = |kind, content| StaticField {
        owner: "Known.Cache".into(),
        assembly: "Known".into(),
        name: "<Entries>k__BackingField".into(),
        slot: Slot { kind, of: "object".into(), layout: None },
        content,
    };
    [
        field(SlotKind::OBJECT, StaticContent::Bits(0x1000)),
        field(SlotKind::VALUE, StaticContent::Box(0x1000)),
        field(SlotKind(0x08), StaticContent::Bits(7)),
    ]
}

/// Complete snapshots with the streams of [`heaps`].
pub(crate) fn heap_files() -> Vec<Vec<u8>> {
    let file = |stream: Vec<u8>| {
        let rows = ["Known.Node", "Known.Node[]"].map(|name| remora_heap_file::TypeRow {
            name: name.into(),
            assembly: "Known".into(),
            events: vec![("Changed".into(), "Known.Handler".into())],
            ..Default::default()
        });
        let state = remora_heap_file::State { complete: true, ..Default::default() };
        let mut writer = remora_heap_file::Writer::create(Vec::new()).expect("memory takes everything");
        writer.stream(&stream).and_then(|()| writer.types(&rows)).expect("memory takes everything");
        writer.statics(&static_fields()).expect("memory takes everything");
        writer.finish(&state).expect("memory takes everything")
    };
    heaps().into_iter().map(file).collect()
}

/// Answers about static fields: an address with and without a value, none, and the end.
pub(crate) fn statics() -> Vec<Vec<u8>> {
    let numbers: [&[u64]; 2] = [&[1, 5, 28, 0, 0x7f00_0000_1000, 1, 42, 0x8013_1351, 0, 0x7f00_0000_1010, 0], &[0, 9]];
    numbers.into_iter().map(remora_heap_stream::written).collect()
}

/// Indexes of these snapshots, without their checksums.
pub(crate) fn heap_indexes() -> Vec<Vec<u8>> {
    use crate::heap_index::{INDEX_BLOCK, INDEX_FIELDS, INDEX_HEADER};
    let index = |file: Vec<u8>| {
        let mut graph = remora_heap_file::read(&file[..], remora_heap_file::Limits::MOST).expect("it is a seed").graph;
        graph.infer_roots();
        let (about, key) = (remora_heap_view::About::default(), remora_heap_view::Key { length: 7, digest: 8 });
        let mut bytes = Vec::new();
        let layouts = &layouts_of(graph.types().len() as u32);
        let (found, goes_on) = (&|_: &_| Default::default(), &|| true);
        let parts = remora_heap_view::Parts { graph: &graph, layouts, about, found, key, goes_on };
        remora_heap_view::make(parts, &mut bytes).expect("memory takes everything");
        // The last section is followed by a checksum for each block, and one of these.
        let blocks = (bytes.len() - INDEX_HEADER - 4).div_ceil(INDEX_BLOCK + 4);
        bytes.truncate(bytes.len() - (blocks + 1) * 4);
        bytes.drain(INDEX_FIELDS..INDEX_HEADER);
        bytes
    };
    heap_files().into_iter().map(index).collect()
}

/// Each type has a field for a class, one for a string, and one for anything.
fn layouts_of(types: u32) -> remora_heap::layout::Layouts {
    use remora_heap::layout::{Field, Layout, Shape, Slot, SlotKind, Source};
    let slots = [(SlotKind::CLASS, "T0"), (SlotKind::STRING, "string"), (SlotKind::OBJECT, "object")];
    let field = |(kind, of): (SlotKind, &str)| {
        let slot = Slot { kind, of: of.into(), layout: None };
        Field { name: of.to_uppercase(), offset: u32::from(kind.0), slot }
    };
    let mut layouts = remora_heap::layout::Layouts::default();
    for of in 0..types {
        let shape = Shape::Class { base: None, fields: slots.map(field).to_vec() };
        let (name, family) = (format!("T{of}"), String::new());
        layouts.add(Layout { class: Some(remora_heap::TypeIx(of)), name, family, shape, source: Source::Reported });
    }
    layouts
}

/// A table of two modules, the second without rows; as words.
pub(crate) fn unwind_tables() -> Vec<Vec<u8>> {
    use remora_wire::unwind::{Module, Rule, encode, row};
    let rows: Vec<u64> = (0..4).map(|number| row(number * 16, Rule::decode(number))).collect();
    let module = |start, count| Module { start, end: start + 0x1000, base: start, first: 0, count, framed: count == 0 };
    vec![in_bytes(&encode(&[module(0x1000, 4), module(0x3000, 0)], &rows)[1..])]
}

/// A record with addresses and a part of the stack, and a line of `schedstat`.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let mut words = vec![5 | 3 << 16 | 2 << 32 | 1 << 48, 7 | 3 << 32, 1, 2, 3, 4];
    words.extend([0x10, 0x20, 0x30, 1, 2, 9]);
    vec![in_bytes(&words), b"354443072 974610 4\n".to_vec()]
}

pub(crate) fn requests() -> Vec<Vec<u8>> {
    vec![b"GET /5ec7e7/api/map?id=1&depth=2 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\n\r\n".to_vec()]
}

fn in_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Eight sets of a table with eight addresses, and these addresses.
pub(crate) fn links() -> Vec<Vec<u8>> {
    let table: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
    let links = Links::new(&table);
    let addresses: Vec<u64> = (0..8).map(|number| 0x7f00_0000_1000 + number * 0x33).collect();
    let kinds = [Link::Framed, Link::Native, Link::Frameless(40), Link::Replaced(0x1_0000)];
    addresses.iter().zip(kinds.iter().cycle()).for_each(|(address, link)| assert!(links.learn(*address, *link)));
    let table = table.into_iter().map(AtomicU64::into_inner);
    vec![table.chain(addresses.iter().copied().cycle().take(32)).flat_map(u64::to_le_bytes).collect()]
}

pub(crate) fn recordings() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../../crates/host/recording/tests/golden/v1.remora").to_vec()]
}

pub(crate) fn images() -> Vec<Vec<u8>> {
    vec![
        NAMES_DLL.to_vec(),
        LOCKS_DLL.to_vec(),
        include_bytes!("../../../crates/host/symbols/fixtures/embedded.dll").to_vec(),
        include_bytes!("../../../crates/host/symbols/fixtures/toplevel.dll").to_vec(),
    ]
}

pub(crate) fn pdbs() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../../crates/host/symbols/fixtures/names.pdb").to_vec(), LOCKS_PDB.to_vec()]
}

pub(crate) fn elfs() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../../crates/host/symbols/fixtures/native.so").to_vec(),
        include_bytes!("../../../crates/host/symbols/fixtures/native.debug").to_vec(),
    ]
}

/// Lists of an early version, and of one with optional compression.
pub(crate) fn bundles() -> Vec<Vec<u8>> {
    let list = |version: u32| {
        let mut bytes = [version, 0, 1].map(u32::to_le_bytes).concat();
        bytes.extend(b"\x02id");
        bytes.extend(vec![0; if version >= 2 { 40 } else { 0 }]);
        let sizes = if version >= 6 { vec![4096_u64, 90, 60] } else { vec![4096, 90] };
        bytes.extend(sizes.into_iter().flat_map(u64::to_le_bytes));
        bytes.extend(b"\x01\x05a.dll");
        bytes
    };
    vec![list(1), list(2), list(6)]
}

pub(crate) fn maps() -> Vec<Vec<u8>> {
    let text = "7f0000001000-7f0000002000 r-xp 00001000 08:01 7    /lib/a b.so (deleted)\n\
                7f0000003000-7f0000004000 rw-p 00000000 00:00 0 \n7fff0000-7fff1000 r-xp 00000000 00:00 0  [vdso]\n\
                7f0000005000-7f0000006000 rwxs 00000000 00:01 9    /memfd:doublemapper (deleted)\n";
    vec![text.as_bytes().to_vec()]
}

/// The files of discovery and checks: all but timers, memory and links.
pub(crate) fn trigger_proc() -> Vec<Vec<u8>> {
    let groups = b"5:cpu,cpuacct:/x\n4:memory:/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n0::/pod/app\n";
    // `symbols_maps` covers its mappings.
    [&proc_files()[..2], &proc_files()[3..5], &[groups.to_vec()]].concat()
}

/// The files of the receipt: all but mounts and listening sockets.
pub(crate) fn receipt_proc() -> Vec<Vec<u8>> {
    [&proc_files()[..3], &proc_files()[5..]].concat()
}

/// Lines of the files in `/proc/PID`, in the kernel's format.
fn proc_files() -> Vec<Vec<u8>> {
    let texts = [
        "7 (a) b (c)) S 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1\n",
        "Name:\tdotnet\nState:\tS (sleeping)\nTgid:\t900\nPid:\t900\nPPid:\t1\nTracerPid:\t0\nUid:\t1\t2\t3\t4\nGid:\t1\t2\t3\t4\n\
         Groups:\t4 24\nNSpid:\t900\t7\nVmSize:\t  100 kB\nVmRSS:\t 10 kB\nThreads:\t9\nSigQ:\t1/30000\nSigPnd:\t1\n\
         ShdPnd:\t2\nSigBlk:\t4\nSigIgn:\t8\nSigCgt:\t10\nCapEff:\t00000000a80425fb\nNoNewPrivs:\t1\nSeccomp:\t2\n",
        "7f0000001000-7f0000002000 r-xp 00001000 08:01 7      /lib/a b.so (deleted)\n7f0000003000-7f0000004000 rw-p 00000000 00:00 0 \n\
         7f10-7f20 r-xp 00000000 08:01 42      /a\\012b/libremora_agent-1.so\n9000-9800 rw-s 00000000 00:0e 11    anon_inode:[perf_event]\n",
        "36 35 98:0 /mnt1 /mnt\\0402 rw,noexec,noatime master:1 - ext3 /dev/root rw,errors=continue\n37 35 0:1 / /tmp ro - tmpfs t rw\n",
        "Num       RefCount Protocol Flags    Type St Inode Path\n\
         ffff: 00000002 00000000 00010000 0001 01 16163 /tmp/dotnet-diagnostic-7-1-socket\nffff: 00000002 00000000 00000000 0002 01 12 @x\n",
        "ID: 3\nsignal: 42/00007f0000000000\nnotify: signal/tid.77\nClockID: -6\nID: 4\nsignal: 14/0\nnotify: none/pid.7\nClockID: 1\n",
        "Rss:  10 kB\nPss:  7 kB\n",
        "socket:[123]",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(crate) fn names() -> Vec<Vec<u8>> {
    let names = [
        "App.Outer+<>c__DisplayClass3_0[System.Int32,[A.B`1[C], D]] <Run>b__0",
        "App.Program+<Work>d__7`2 MoveNext",
        "<Main>$ <<Main>$>g__Local|0_1",
        "_ZNSt6vectorIiSaIiEE9push_backEOi",
        "_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE",
        "_RNvCs1234_7mycrate3foo",
    ];
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}
