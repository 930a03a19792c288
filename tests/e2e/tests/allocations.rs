//! `remora trace --event alloc-exact -- CMD`: objects and bytes, compared with the program's own counts and the runtime's own counter.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Remora, Runtime, Target, on_every_runtime};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Objects and bytes by method and type, without spaces in the names.
type Allocated = BTreeMap<(String, String), (u64, u64)>;

fn trace(runtime: &Runtime, folder: &Path, outputs: &[&str], program: &[&str]) -> (String, Value) {
    let mut command = Remora::command();
    command.args(["trace", "--event", "alloc-exact", "--json"]);
    outputs.iter().for_each(|output| {
        command.arg("-o").arg(folder.join(output));
    });
    command.arg("--").arg(runtime.launcher()).arg(Target::assembly(program[0])).args(&program[1..]);
    let finished = Remora::spawn(command).finish().succeeded();
    (finished.stderr.clone(), finished.json())
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// The program's own lines.
fn own(text: &str) -> Allocated {
    let lines = text.lines().filter_map(|line| line.strip_prefix("objects "));
    let parsed = lines.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        ((words[0].to_owned(), words[1].to_owned()), (words[2].parse().unwrap(), words[3].parse().unwrap()))
    });
    parsed.collect()
}

fn found(tree: &Value) -> Allocated {
    let by_index = |list: &str| -> BTreeMap<u64, String> {
        let all = tree[list].as_array().unwrap().iter();
        all.map(|one| (number(one, "index"), one["name"].as_str().unwrap().replace(' ', ""))).collect()
    };
    let (methods, types) = (by_index("methods"), by_index("types"));
    let nodes = tree["nodes"].as_array().unwrap();
    let mut all = Allocated::new();
    for one in tree["allocations"].as_array().unwrap() {
        let method = one["node"].as_u64().map_or("", |node| &methods[&number(&nodes[node as usize], "method")]);
        let sum = all.entry((method.to_owned(), types[&number(one, "type")].clone())).or_default();
        (sum.0, sum.1) = (sum.0 + number(one, "objects"), sum.1 + number(one, "bytes"));
    }
    all
}

#[test]
fn every_object_is_counted_by_type_and_method_and_its_bytes_are_those_that_the_runtime_counts() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let (printed, tree) = trace(runtime, folder.path(), &["a.html"], &["allocations", "8"]);
        let (own, found) = (own(&printed), found(&tree));
        assert_eq!(own.len(), 11, "{printed}");
        for (key, expected) in &own {
            assert_eq!(found.get(key), Some(expected), "{key:?} on {}: objects and bytes", runtime.name());
        }
        let losses = tree["losses"].as_object().unwrap();
        assert!(losses.values().all(|count| count == 0), "{losses:?} on {}", runtime.name());
    });
}
