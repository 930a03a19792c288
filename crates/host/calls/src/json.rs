//! A trace as JSON: methods, threads, and one tree for each thread. A field keeps its name and meaning; new ones may be added.

use crate::allocated::{self, by_type, with_callees};
use crate::model::{Calls, NodeIx};
use crate::profile::About;
use crate::totals::method_totals;
use crate::values::{Argument, arguments, constant_of_result, result};
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, Write};

#[derive(Serialize)]
struct Document<'a> {
    remora_calls: u32,
    command: &'a str,
    runtime: &'a str,
    process_id: u32,
    duration_nanoseconds: u64,
    /// Not known with arguments.
    hook_nanoseconds_a_call: Option<f64>,
    notes: &'a [String],
    losses: Losses,
    methods: Vec<Method<'a>>,
    threads: Vec<Thread<'a>>,
    nodes: Vec<Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_calls: Option<Vec<Recorded<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    types: Vec<Type<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allocations: Vec<Allocated>,
}

/// An allocated type, in order of bytes.
#[derive(Serialize)]
struct Type<'a> {
    index: usize,
    name: &'a str,
    objects: u64,
    bytes: u64,
}

/// Objects of one type: `node` is the index of the node that allocates, `type` that of the type.
#[derive(Serialize)]
struct Allocated {
    node: Option<NodeNumber>,
    thread: u32,
    #[serde(rename = "type")]
    ty: usize,
    objects: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Losses {
    objects_without_place: u64,
    object_bytes_without_place: u64,
    calls_without_place: u64,
    ended_late: u64,
    exits_without_entry: u64,
    methods_without_hooks: u64,
    long_calls_left_out: u64,
    threads_sharing_a_tree: u64,
    damaged: u64,
    panics: u64,
    calls_without_arguments: u64,
    arguments_refused: u64,
}

#[derive(Serialize)]
struct Method<'a> {
    index: u32,
    name: &'a str,
    module: &'a str,
    token: u32,
    calls: u64,
    total_nanoseconds: u64,
    self_nanoseconds: u64,
    longest_nanoseconds: u64,
    exceptions: u64,
    active: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated: Option<MethodAllocated>,
}

/// What a method allocates: with all that it calls, and by itself.
#[derive(Serialize)]
struct MethodAllocated {
    total_objects: u64,
    total_bytes: u64,
    self_objects: u64,
    self_bytes: u64,
}

/// By method, if objects were counted.
fn allocated_by_methods(calls: &Calls) -> HashMap<u32, allocated::MethodAllocations> {
    with_callees(calls).into_iter().map(|one| (one.method.0, one)).collect()
}

#[derive(Serialize)]
struct Thread<'a> {
    id: u32,
    name: &'a str,
}

/// A node: `parent` is the index of another node, `method` and `thread` those of the lists above.
#[derive(Serialize)]
struct Node {
    parent: Option<NodeNumber>,
    thread: u32,
    method: u32,
    calls: u64,
    total_nanoseconds: u64,
    self_nanoseconds: u64,
    longest_nanoseconds: u64,
    exceptions: u64,
    active: bool,
}

type NodeNumber = u32;

/// A call with arguments and result; `node` is the index of its node.
#[derive(Serialize)]
struct Recorded<'a> {
    node: NodeNumber,
    begin_nanoseconds: u64,
    duration_nanoseconds: u64,
    exception: bool,
    arguments: Vec<Argument<'a>>,
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_enum: Option<String>,
}

fn recorded(calls: &Calls) -> Vec<Recorded<'_>> {
    let all = calls.long.iter();
    all.map(|call| {
        let parameters = &calls.method(&calls.nodes[call.node.0 as usize]).parameters;
        Recorded {
            node: call.node.0,
            begin_nanoseconds: call.start,
            duration_nanoseconds: call.duration,
            exception: call.threw,
            arguments: arguments(&call.values, parameters),
            result: result(&call.values, parameters),
            result_enum: constant_of_result(&call.values, parameters),
        }
    })
    .collect()
}

/// Writes the call tree.
///
/// # Errors
/// Those of `out`.
pub fn write_json(calls: &Calls, about: &About, out: &mut dyn Write) -> io::Result<()> {
    let losses = &calls.losses;
    let allocated = allocated_by_methods(calls);
    let document = Document {
        remora_calls: 1,
        command: &about.command_line,
        runtime: &about.runtime,
        process_id: about.process_id,
        duration_nanoseconds: calls.duration,
        hook_nanoseconds_a_call: (!calls.has_values).then(|| calls.cost.whole()),
        notes: &about.notes,
        losses: Losses {
            objects_without_place: losses.objects,
            object_bytes_without_place: losses.object_bytes,
            calls_without_place: losses.calls,
            ended_late: losses.late,
            exits_without_entry: losses.unmatched,
            methods_without_hooks: losses.methods,
            long_calls_left_out: losses.long,
            threads_sharing_a_tree: losses.shared_threads,
            damaged: losses.damaged,
            panics: losses.panics,
            calls_without_arguments: losses.values,
            arguments_refused: losses.values_refused,
        },
        methods: method_totals(calls)
            .into_iter()
            .map(|sum| {
                let method = &calls.methods[sum.method.0 as usize];
                Method {
                    index: sum.method.0,
                    name: &method.name,
                    module: &method.module,
                    token: method.token,
                    calls: sum.calls,
                    total_nanoseconds: sum.total,
                    self_nanoseconds: sum.own,
                    longest_nanoseconds: sum.longest,
                    exceptions: sum.exceptions,
                    active: sum.active,
                    allocated: allocated.get(&sum.method.0).map(|one| MethodAllocated {
                        total_objects: one.total.objects,
                        total_bytes: one.total.bytes,
                        self_objects: one.own.objects,
                        self_bytes: one.own.bytes,
                    }),
                }
            })
            .collect(),
        threads: calls.threads.iter().map(|thread| Thread { id: thread.id, name: &thread.name }).collect(),
        nodes: calls
            .nodes
            .iter()
            .map(|node| Node {
                parent: node.parent.map(|NodeIx(parent)| parent),
                thread: node.thread.0,
                method: node.method.0,
                calls: node.calls,
                total_nanoseconds: node.total,
                self_nanoseconds: node.own,
                longest_nanoseconds: node.longest,
                exceptions: node.exceptions,
                active: node.is_active,
            })
            .collect(),
        recorded_calls: calls.has_values.then(|| recorded(calls)),
        types: by_type(calls)
            .iter()
            .map(|one| Type {
                index: one.of,
                name: &calls.types[one.of],
                objects: one.sum.objects,
                bytes: one.sum.bytes,
            })
            .collect(),
        allocations: calls
            .allocations
            .iter()
            .map(|one| Allocated {
                node: one.by.map(|NodeIx(node)| node),
                thread: one.thread.0,
                ty: one.ty,
                objects: one.objects,
                bytes: one.bytes,
            })
            .collect(),
    };
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}
