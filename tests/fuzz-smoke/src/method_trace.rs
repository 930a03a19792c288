//! Method bodies of the target's files, and what the tracer and its recorder send each other.

use remora_il::{Assembler, Body, MethodSignature, Probes, locals_with, type_text, wrap};
use remora_wire::Foreign;
use remora_wire::method_trace::{
    Change, Changed, Ended, FromTracer, RESULT, ToTracer, TraceConfig, TraceRecord, TraceRequest, TraceValue,
};

/// A body; what is wrapped is a body again, and has one clause more.
pub(crate) fn il_body(bytes: &[u8]) -> bool {
    let Ok(body) = Body::read(bytes) else { return false };
    let mut probe = Assembler::default();
    probe.ldc_i4(1).stloc(0);
    let probes = Probes {
        before: probe.clone(),
        on_exception: probe.clone(),
        after: probe,
        result: Some(1),
        locals: 0x1100_0001,
        max_stack: 4,
        ..Probes::default()
    };
    let Ok(wrapped) = wrap(&body, &probes) else { return false };
    let read = Body::read(&wrapped).expect("what was written");
    assert_eq!(read.clauses.len(), body.clauses.len() + 1);
    assert_eq!(read.write().as_deref(), Ok(wrapped.as_slice()));
    true
}

/// Signatures of methods and of locals.
pub(crate) fn il_signature(bytes: &[u8]) -> bool {
    if let Ok(signature) = MethodSignature::read(bytes) {
        let types: Vec<&[u8]> = signature.result.into_iter().chain(signature.parameters).collect();
        let _ = locals_with(&[], &types);
        assert!(types.iter().all(|of_type| type_text(of_type, &|_| None).is_ok()));
        return true;
    }
    locals_with(bytes, &[&[0x0B]]).is_ok()
}

/// Messages of both sides, records, and the client data.
pub(crate) fn wire_method_trace(bytes: &[u8]) -> bool {
    const LENGTH: usize = 4;
    let foreign = || Foreign::from(bytes);
    let (to, from) = (ToTracer::decode(foreign()), FromTracer::decode(foreign()));
    let (record, config) = (TraceRecord::decode(foreign()), TraceConfig::decode(bytes));
    let is_one = to.is_ok() || from.is_ok() || record.is_ok() || config.is_ok();
    if let Ok(message) = to {
        assert_eq!(ToTracer::decode(message.encode()[LENGTH..].into()), Ok(message));
    }
    if let Ok(message) = from {
        assert_eq!(FromTracer::decode(message.encode()[LENGTH..].into()), Ok(message));
    }
    // Texts may be cut, and a number that is none differs from itself.
    if let Ok(record) = record {
        assert!(TraceRecord::decode(record.encode().as_slice().into()).is_ok());
    }
    is_one
}

/// A small body with a loop, a fat one with a clause.
pub(crate) fn bodies() -> Vec<Vec<u8>> {
    let code = [0x00, 0x02, 0x2D, 0xFC, 0x45, 1, 0, 0, 0, 0, 0, 0, 0, 0xDE, 0x01, 0xDC, 0x2A];
    let fat = [0x0B, 0x30, 8, 0, code.len() as u8, 0, 0, 0, 1, 0, 0, 0x11];
    let padding = [0, 0, 0];
    let section = [1, 16, 0, 0, 2, 0, 0, 0, 15, 15, 0, 1, 0, 0, 0, 0];
    let small = [&[(code.len() as u8) << 2 | 2][..], &code].concat();
    vec![small, [&fat[..], &code, &padding, &section].concat()]
}

pub(crate) fn signatures() -> Vec<Vec<u8>> {
    vec![
        vec![
            0x10, 1, 4, 0x1E, 0, 0x11, 0x09, 0x10, 0x15, 0x12, 0x05, 1, 0x1E, 0, 0x14, 0x08, 2, 0, 0, 0x20, 0x09, 0x0E,
        ],
        vec![0x00, 1, 0x01, 0x1B, 0x00, 1, 0x08, 0x08],
        vec![7, 2, 0x08, 0x45, 0x0E],
    ]
}

pub(crate) fn messages() -> Vec<Vec<u8>> {
    let text = || "Shop.Orders.Pay".to_owned();
    let request = TraceRequest {
        patterns: vec![text()],
        slower_than: 1,
        records: 2,
        arguments: true,
        most_methods: 3,
        most_calls: 4,
        most_late: 5,
    };
    let method = FromTracer::Method {
        index: Some(1),
        name: text(),
        remark: String::new(),
        steps_of: Some(0),
        is_async: false,
        parameters: vec![text()],
    };
    let stopped = FromTracer::Stopped { why: Ended::TooManyCalls, code: 1 };
    let values = vec![(0, TraceValue::Text(text(), 99)), (1, TraceValue::Float(0.5)), (RESULT, TraceValue::Null)];
    let record =
        TraceRecord { method: 1, is_thrown: false, thread: 2, begin: 3, duration: 4, stack: vec![5, 6], values };
    let (switched, changed) =
        (FromTracer::Switched { index: 1, is_traced: true }, FromTracer::Changed(Changed::default()));
    let mut messages: Vec<Vec<u8>> =
        [method, stopped, switched, changed].iter().map(|message| message.encode()[4..].to_vec()).collect();
    messages.push(ToTracer::Trace(request).encode()[4..].to_vec());
    for change in [Change::Add { pattern: text(), most: 1 }, Change::Remove { pattern: text() }, Change::SlowerThan(1)]
    {
        messages.push(ToTracer::Change(change).encode()[4..].to_vec());
    }
    messages.push(record.encode());
    messages.push(TraceConfig { nonce: [1; 16], socket_path: "/tmp/a".into() }.encode());
    messages
}
