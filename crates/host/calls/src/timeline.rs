//! The long calls as a timeline, in the Trace Event Format, which Perfetto and Chrome's `about:tracing` open.
//!
//! "Trace Event Format", the JSON object format: complete events (`ph` is `X`) with `ts` and `dur` in microseconds, and metadata events (`M`)
//! with the names of process and threads.

use crate::model::{Calls, LongCall};
use crate::profile::About;
use crate::values::described;
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace<'a> {
    trace_events: Vec<Event<'a>>,
    display_time_unit: &'static str,
    other_data: Other<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Other<'a> {
    command: &'a str,
    runtime: &'a str,
    shortest_call_nanoseconds: u64,
    calls_left_out: u64,
}

#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    ph: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Arguments<'a>>,
}

#[derive(Serialize)]
struct Arguments<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threw: Option<bool>,
    /// With arguments: the call as a reader would write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
}

fn shown<'a>(calls: &'a Calls, call: &LongCall) -> Option<Arguments<'a>> {
    let method = calls.method(&calls.nodes[call.node.0 as usize]);
    let text = calls.has_values.then(|| described(&method.name, &call.values, &method.parameters));
    (call.threw || text.is_some()).then_some(Arguments { name: None, threw: call.threw.then_some(true), call: text })
}

/// Writes the timeline.
///
/// # Errors
/// Those of `out`.
pub fn write_timeline(calls: &Calls, about: &About, out: &mut dyn Write) -> io::Result<()> {
    let pid = about.process_id;
    let named = |name, tid, value| Event {
        name,
        cat: None,
        ph: "M",
        ts: None,
        dur: None,
        pid,
        tid,
        args: Some(Arguments { name: Some(value), threw: None, call: None }),
    };
    let mut events = vec![named("process_name", pid, about.application.as_str())];
    let threads = calls.threads.iter().filter(|thread| !thread.name.is_empty());
    events.extend(threads.map(|thread| named("thread_name", thread.id, thread.name.as_str())));
    // The outermost call of several that begin together comes first.
    let mut long: Vec<_> = calls.long.iter().collect();
    long.sort_by_key(|call| (call.start, std::cmp::Reverse(call.duration)));
    events.extend(long.into_iter().map(|call| {
        let node = &calls.nodes[call.node.0 as usize];
        Event {
            name: &calls.method(node).name,
            cat: Some("call"),
            ph: "X",
            ts: Some(call.start as f64 / 1e3),
            dur: Some(call.duration as f64 / 1e3),
            pid,
            tid: calls.threads[node.thread.0 as usize].id,
            args: shown(calls, call),
        }
    }));
    let trace = Trace {
        trace_events: events,
        display_time_unit: "ns",
        other_data: Other {
            command: &about.command_line,
            runtime: &about.runtime,
            shortest_call_nanoseconds: calls.long_from,
            calls_left_out: calls.losses.long,
        },
    };
    serde_json::to_writer(&mut *out, &trace)?;
    writeln!(out)
}
