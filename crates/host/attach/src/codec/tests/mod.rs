//! Hand-written golden bytes, and damage of every kind.

use super::*;
use remora_holds::holds;

fn utf16(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32 + 1).to_le_bytes().to_vec();
    text.bytes().chain([0]).for_each(|byte| bytes.extend([byte, 0]));
    bytes
}

fn answer(command: u8, payload: &[u8]) -> Vec<u8> {
    message::frame(Command { set: 0xFF, id: command }, payload).expect("fits")
}

#[test]
fn att_02_the_request_carries_time_out_class_path_and_blob_byte_for_byte() {
    let clsid = Guid::from_parts(0x0102_0304, 0x0506, 0x0708, [9, 10, 11, 12, 13, 14, 15, 16]);
    let attach = AttachProfiler { timeout_milliseconds: 1_500, clsid, path: "/a", client_data: &[0xAA, 0xBB] };
    let expected: Vec<u8> = [
        &b"DOTNET_IPC_V1\0"[..],
        &[56, 0, 3, 1, 0, 0],
        &[0xDC, 0x05, 0, 0],
        &[4, 3, 2, 1, 6, 5, 8, 7, 9, 10, 11, 12, 13, 14, 15, 16],
        &[3, 0, 0, 0, b'/', 0, b'a', 0, 0, 0],
        &[2, 0, 0, 0, 0xAA, 0xBB],
    ]
    .concat();
    holds!(ATT_02 rem, Request::AttachProfiler(&attach).encode() == Ok(expected));
}

#[test]
fn att_11_the_largest_client_data_is_sent_and_one_byte_more_is_refused() {
    let path = "/tmp/libremora_agent_π.so";
    let data = vec![7; largest_client_data(path) + 1];
    let attach = |client_data| AttachProfiler { timeout_milliseconds: 0, clsid: Guid([0; 16]), path, client_data };
    let largest = Request::AttachProfiler(&attach(&data[1..])).encode().expect("fits");
    assert_eq!(largest.len(), MAX_MESSAGE);
    holds!(ATT_11 rem, Request::AttachProfiler(&attach(&data)).encode() == Err(CodecError::TooLarge { size: 65_536 }));
    let none = Request::AttachProfiler(&attach(&[])).encode().expect("fits");
    assert_eq!(none[none.len() - 4..], [0, 0, 0, 0]);
}

#[test]
fn requests_without_payload_are_headers() {
    let cases = [
        (Request::ProcessInfo(ProcessInfoVersion::One), [4, 0]),
        (Request::ProcessInfo(ProcessInfoVersion::Two), [4, 4]),
        (Request::ProcessInfo(ProcessInfoVersion::Three), [4, 8]),
        (Request::ResumeRuntime, [4, 1]),
    ];
    for (request, [set, id]) in cases {
        let expected = [&b"DOTNET_IPC_V1\0"[..], &[20, 0, set, id, 0, 0]].concat();
        assert_eq!(request.encode(), Ok(expected), "{request:?}");
    }
}

#[test]
fn each_form_of_a_session_request_is_the_oldest_that_can_say_it() {
    let provider = Provider { name: "P".into(), keywords: 0x0102, level: 4, filter: String::new() };
    let tail = [&[1, 0, 0, 0][..], &[2, 1, 0, 0, 0, 0, 0, 0], &[4, 0, 0, 0], &utf16("P"), &utf16("")].concat();
    let cases: [(Rundown, Stacks, u8, &[u8]); 5] = [
        (Rundown::None, Stacks::Walked, 3, &[0]),
        (Rundown::Default, Stacks::Walked, 3, &[1]),
        (Rundown::Default, Stacks::None, 4, &[1, 0]),
        (Rundown::Keywords(0x10), Stacks::Walked, 5, &[0x10, 0, 0, 0, 0, 0, 0, 0, 1]),
        (Rundown::Keywords(0x10), Stacks::None, 5, &[0x10, 0, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (rundown, stacks, id, middle) in cases {
        let config = EventPipeConfig { buffer_mebibytes: 256, rundown, stacks, providers: vec![provider.clone()] };
        let message = Request::CollectTracing(&config).encode().expect("fits");
        assert_eq!(message[16..18], [2, id]);
        assert_eq!(message[20..], [&[0, 1, 0, 0, 1, 0, 0, 0], middle, &tail].concat(), "{rundown:?} {stacks:?}");
    }
}

#[test]
fn a_stop_names_its_session() {
    let message = Request::StopTracing(StopTracing { session: SessionId(0x0102) }).encode().expect("fits");
    assert_eq!(message[14..], [28, 0, 2, 1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
}

fn process_info_payload(version: ProcessInfoVersion) -> Vec<u8> {
    let mut bytes = Vec::new();
    if version == ProcessInfoVersion::Three {
        bytes.extend([1, 0, 0, 0]);
    }
    bytes.extend(42_u64.to_le_bytes());
    bytes.extend([7; 16]);
    ["dotnet app.dll", "Linux", "x64"].iter().for_each(|text| bytes.extend(utf16(text)));
    if version >= ProcessInfoVersion::Two {
        ["app", "8.0.4+abc"].iter().for_each(|text| bytes.extend(utf16(text)));
    }
    if version == ProcessInfoVersion::Three {
        bytes.extend(utf16("linux-x64"));
    }
    bytes
}

#[test]
fn process_info_reads_all_three_forms() {
    for version in [ProcessInfoVersion::One, ProcessInfoVersion::Two, ProcessInfoVersion::Three] {
        let info = ProcessInfo::decode(version, &process_info_payload(version)).expect("valid");
        assert_eq!((info.pid, info.cookie, info.command_line), (42, Guid([7; 16]), "dotnet app.dll".into()));
        assert_eq!(info.entry_assembly.is_some(), version >= ProcessInfoVersion::Two);
        assert_eq!(info.runtime_identifier, (version == ProcessInfoVersion::Three).then(|| "linux-x64".into()));
    }
}

#[test]
fn every_cut_of_a_valid_answer_is_an_error_and_no_panic() {
    for version in [ProcessInfoVersion::One, ProcessInfoVersion::Two, ProcessInfoVersion::Three] {
        let payload = process_info_payload(version);
        for end in 0..payload.len() {
            let cut = ProcessInfo::decode(version, &payload[..end]);
            assert!(matches!(cut, Err(CodecError::Truncated { .. })), "{version:?} cut at {end}: {cut:?}");
        }
    }
}

#[test]
fn a_refusal_carries_its_code_and_success_may_carry_a_failing_one() {
    let refused = Reply::decode(&answer(0xFF, &0x8013_136A_u32.to_le_bytes())).expect("valid");
    assert_eq!(refused, Reply::Refused(HResult::PROFILER_ALREADY_ACTIVE));
    let done = Reply::decode(&answer(0, &0_u32.to_le_bytes())).expect("valid");
    assert_eq!(done.into_attached(), Ok(()));
    let failed = Reply::decode(&answer(0, &0x8000_4005_u32.to_le_bytes())).expect("valid");
    assert_eq!(failed.into_attached(), Err(CodecError::Refused(HResult(0x8000_4005))));
    let empty = Reply::decode(&answer(0, &[])).expect("valid");
    assert_eq!(empty.into_attached(), Ok(()));
}

#[test]
fn damaged_frames_are_named() {
    let good = answer(0, &[1, 2, 3, 4]);
    let mut magic = good.clone();
    magic[3] ^= 1;
    let mut small = good.clone();
    small[14] = 19;
    let foreign = message::frame(Command { set: 4, id: 1 }, &[]).expect("fits");
    let cases = [
        (magic, CodecError::BadMagic),
        (small, CodecError::BadField { field: "size", why: "smaller than a header" }),
        (foreign, CodecError::UnexpectedReply { set: 4, command: 1 }),
        (good[..23].to_vec(), CodecError::Truncated { need: 24, have: 23 }),
        (answer(0xFF, &[1, 2]), CodecError::Truncated { need: 4, have: 2 }),
        (Vec::new(), CodecError::Truncated { need: 14, have: 0 }),
    ];
    for (bytes, expected) in cases {
        assert_eq!(Reply::decode(&bytes), Err(expected));
    }
}

#[test]
fn an_advertisement_names_process_and_runtime() {
    let bytes = [&b"ADVR_V1\0"[..], &[3; 16], &77_u64.to_le_bytes(), &[0, 0]].concat();
    assert_eq!(Advertisement::decode(&bytes), Ok(Advertisement { cookie: Guid([3; 16]), pid: 77 }));
    assert_eq!(bytes.len(), Advertisement::SIZE);
    assert!(Advertisement::decode(&bytes[..33]).is_err());
    assert_eq!(Advertisement::decode(b"GET / HTTP/1.1\r\nHost: remora.example\r\n"), Err(CodecError::BadMagic));
}

#[test]
fn random_damage_never_panics() {
    let seeds = [
        answer(0, &process_info_payload(ProcessInfoVersion::Three)),
        answer(0xFF, &[0x6A, 0x13, 0x13, 0x80]),
        [&b"ADVR_V1\0"[..], &[3; 26]].concat(),
        process_info_payload(ProcessInfoVersion::Two),
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..40_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            bytes[at] = [0, 1, 0x7F, 0x80, 0xFF, next(256) as u8][next(6)];
        }
        bytes.truncate(next(bytes.len() + 1));
        decode_anything(&bytes);
    }
}

#[test]
fn a_guid_is_written_as_people_write_it() {
    let guid = Guid::from_parts(0xBD1A_889D, 0xDF22, 0x4A29, [0x8B, 0x1A, 1, 2, 3, 4, 5, 6]);
    assert_eq!(guid.to_string(), "bd1a889d-df22-4a29-8b1a-010203040506");
}
