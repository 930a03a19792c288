//! Each format against a validator of its own, against golden files, and all of them against one rule: no weight is lost.
//!
//! `UPDATE_GOLDEN=1 cargo test -p remora-export --test formats` writes the golden files anew.

#[path = "support/outputs.rs"]
mod outputs;
#[path = "support/pprof_reader.rs"]
mod pprof_reader;
mod support;

use fxprof_processed_profile as fxprof;
use outputs::{firefox, list, page_data, page_data_by, speedscope, sum, unpacked, written, written_text};
use remora_export::Format;
use remora_profile::{ApplicationRule, ApplicationTime, Profile};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn profiles() -> [Profile; 3] {
    [support::small(), support::synthetic(20_000, 3_000, 5), Profile::default()]
}

#[test]
fn bytes_are_no_time_in_any_format() {
    let mut profile = support::small();
    profile.meta.unit = remora_profile::Unit::Bytes;
    let total = profile.total_weight();
    assert_eq!(folded_weight(&profile), total, "not thousandths of them");
    let speedscope = speedscope(&profile);
    assert!(list(&speedscope["profiles"]).iter().all(|profile| profile["unit"] == "bytes"));
    let pprof = unpacked(&profile, Format::Pprof);
    for word in ["alloc_space", "bytes"] {
        assert!(pprof.windows(word.len()).any(|part| part == word.as_bytes()), "{word}");
    }
    assert_eq!(page_data(&profile)["about"]["inBytes"], true);
}

#[test]
fn no_format_loses_weight() {
    for profile in profiles() {
        let total = profile.total_weight();
        assert_eq!(sum(&page_data(&profile)["values"]["weight"]), total);
        assert_eq!(folded_weight(&profile), (total + 500) / 1_000, "microseconds, to the nearest");
        let speedscope = speedscope(&profile);
        let weights: Vec<u64> = list(&speedscope["profiles"]).iter().map(|profile| sum(&profile["weights"])).collect();
        let (all, threads) = weights.split_first().unwrap_or((&0, &[]));
        assert_eq!((*all, threads.iter().sum::<u64>()), (total, total), "all threads, then each");
        let pprof = pprof_reader::read(&unpacked(&profile, Format::Pprof));
        assert_eq!(pprof.samples.iter().map(|sample| sample.values[1]).sum::<u64>(), total);
        assert_eq!(pprof.samples.iter().map(|sample| sample.values[0]).sum::<u64>(), profile.samples().len() as u64);
        let firefox = firefox(&profile);
        let exact = |weight: &Value| (weight.as_f64().expect("a number") * 1e6).round() as u64;
        let threads = list(&firefox["threads"]).iter();
        assert_eq!(threads.flat_map(|thread| list(&thread["samples"]["weight"])).map(exact).sum::<u64>(), total);
    }
}

fn folded_weight(profile: &Profile) -> u64 {
    let text = written_text(profile, Format::Folded);
    text.lines().map(|line| line.rsplit_once(' ').expect("a weight").1.parse::<u64>().expect("whole")).sum()
}

#[test]
fn the_same_profile_gives_the_same_bytes() {
    for format in Format::ALL {
        assert_eq!(written(&support::small(), format), written(&support::small(), format), "{}", format.name());
    }
}

#[test]
fn loss_and_notes_are_in_every_format_that_has_a_place_for_them() {
    let profile = support::small();
    let account = "14 taken = 9 delivered + 4 lost (ring-full: the ring in the target was full)";
    let note = "the recording ended early: the target exited";
    let page = page_data(&profile);
    assert_eq!((&page["loss"]["taken"], &page["loss"]["lost"][0]["count"]), (&14.into(), &4.into()));
    assert_eq!(page["about"]["notes"][0], note);
    assert!(written_text(&profile, Format::Folded).contains("\n[lost];4 samples, ring-full 0\n"));
    let speedscope = speedscope(&profile);
    assert_eq!(speedscope["name"], "Shop (4321), wall time, 5 of 14 samples lost");
    let pprof = pprof_reader::read(&unpacked(&profile, Format::Pprof)).comments.join("\n");
    for text in [speedscope["remora"].to_string(), pprof, firefox(&profile)["meta"]["extra"].to_string()] {
        assert!(text.contains(account) && text.contains(note), "{text}");
    }
}

#[test]
fn html_refers_to_what_there_is() {
    for profile in profiles() {
        let data = page_data(&profile);
        let nodes = list(&data["nodes"]["up"]).len();
        let frames = list(&data["frames"]["name"]).len();
        let strings = list(&data["strings"]).len() as i64;
        for (at, up) in list(&data["nodes"]["up"]).iter().enumerate() {
            assert!(up.as_u64().expect("whole") as usize <= at);
        }
        assert!(list(&data["nodes"]["frame"]).iter().all(|frame| (frame.as_u64().expect("whole") as usize) < frames));
        assert!(list(&data["values"]["node"]).iter().all(|node| (node.as_u64().expect("whole") as usize) < nodes));
        for column in ["name", "module", "file"] {
            assert!(list(&data["frames"][column]).iter().all(|text| text.as_i64().expect("whole") < strings));
        }
        assert!(!data["strings"].to_string().contains("Shop.Unused()"), "no sample has that stack");
    }
}

#[test]
fn the_page_attributes_time_as_the_report_does() {
    let profile = support::small();
    for (rule, expected) in [
        (&[][..], [("Shop.Orders.Price<T>(int)", 87_501_400), ("Shop.Program.Main(string[])", 10_000_001)]),
        (&["System.Private.*"], [("string.Concat(string, string)", 60_000_800), ("", 0)]),
    ] {
        let rule = ApplicationRule { assemblies: rule.iter().map(|&pattern| pattern.to_owned()).collect() };
        let data = page_data_by(&profile, &rule);
        assert_eq!(data["rule"], rule.to_string());
        let text = |index: &Value| data["strings"][index.as_u64().expect("whole") as usize].as_str().expect("a text");
        let name = |frame: &Value| frame.as_u64().map_or("", |frame| text(&data["frames"]["name"][frame as usize]));
        let mut by_method: BTreeMap<&str, u64> = BTreeMap::new();
        let weights = list(&data["values"]["weight"]).iter().map(|weight| weight.as_u64().expect("whole"));
        for (row, weight) in list(&data["values"]["attribution"]).iter().zip(weights) {
            let row = row.as_u64().expect("whole") as usize;
            *by_method.entry(name(&data["attributions"]["nearest"][row])).or_default() += weight;
        }
        for (method, weight) in expected {
            assert!(method.is_empty() || by_method[method] == weight, "{by_method:?}");
        }
        let time = ApplicationTime::of(&profile, &rule, None);
        for method in &time.methods {
            assert_eq!(by_method[profile.text(profile.frame_at(method.frame).name)], method.weight());
        }
        assert_eq!(by_method[""], time.elsewhere);
    }
}

#[test]
fn speedscope_starts_with_all_threads_and_their_equal_stacks_are_one() {
    let file = speedscope(&support::small());
    let names: Vec<&str> =
        list(&file["profiles"]).iter().map(|profile| profile["name"].as_str().expect("a name")).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], "All threads");
    assert_eq!(file["activeProfileIndex"], 0);
    let many = speedscope(&support::synthetic(2_000, 100, 5));
    let all = list(&many["profiles"][0]["samples"]);
    let stacks: BTreeSet<String> = all.iter().map(Value::to_string).collect();
    assert!(stacks.len() == all.len() && all.len() < 101, "each stack once, whatever its thread");
    assert!(list(&speedscope(&Profile::default())["profiles"]).is_empty());
}

#[test]
fn folded_lines_are_a_thread_and_frames_and_a_whole_weight() {
    for line in written_text(&support::small(), Format::Folded).lines() {
        let (stack, weight) = line.rsplit_once(' ').expect("a weight");
        assert!(weight.bytes().all(|digit| digit.is_ascii_digit()), "{line}");
        assert!(stack.split(';').count() >= 2 && stack.split(';').all(|name| !name.is_empty()), "{line}");
        assert!(!line.contains(char::is_control), "{line}");
    }
}

#[test]
fn speedscope_files_obey_the_schema_of_speedscope() {
    let schema: Value =
        serde_json::from_str(include_str!("fixtures/speedscope/file-format-schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for profile in profiles() {
        let file = speedscope(&profile);
        let errors: Vec<String> = validator.iter_errors(&file).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        let frames = list(&file["shared"]["frames"]).len();
        for thread in list(&file["profiles"]) {
            assert_eq!(list(&thread["samples"]).len(), list(&thread["weights"]).len());
            assert_eq!(thread["endValue"].as_u64(), Some(sum(&thread["weights"])));
            let mut stacks = list(&thread["samples"]).iter().flat_map(list);
            assert!(stacks.all(|frame| (frame.as_u64().expect("whole") as usize) < frames));
        }
    }
    let mut broken = speedscope(&support::small());
    broken["profiles"][0]["weights"] = Value::Null;
    assert!(!validator.is_valid(&broken), "the validator sees what is wrong");
}

#[test]
fn pprof_files_say_who_and_where_and_in_which_state() {
    let read = pprof_reader::read(&unpacked(&support::small(), Format::Pprof));
    assert_eq!(read.sample_types, ["samples/count", "wall/nanoseconds"]);
    assert_eq!(read.default_sample_type, "wall");
    assert_eq!(read.period, "10000000 wall/nanoseconds");
    assert_eq!((read.time_nanos, read.duration_nanos), (1_700_000_000_123_456_789, 2_000_000_000));
    assert_eq!(read.mappings[0], "Shop.dll 111", "the application's own first");
    let concat = &read.samples[0];
    assert_eq!(
        concat.stack,
        [
            "string.Concat(string, string) (:0) in System.Private.CoreLib.dll",
            "Shop.Orders.Price<T>(int) (src/Orders.cs:42) in Shop.dll",
            "Shop.Program.Main(string[]) (src/Program.cs:10) in Shop.dll",
        ]
    );
    assert_eq!(concat.values, [2, 60_000_800]);
    let labels = |at: usize| ["thread", "thread_id", "state"].map(|key| read.samples[at].labels[key].as_str());
    assert_eq!(labels(0), ["Main (4321)", "4321", "running"]);
    let waiting =
        read.samples.iter().position(|sample| sample.stack[0].starts_with("pthread_cond_wait")).expect("it waits");
    assert_eq!(labels(waiting)[1..], ["4330", "blocked"]);
    let cpu = pprof_reader::read(&unpacked(&support::synthetic(10, 50, 1), Format::Pprof));
    assert_eq!(cpu.sample_types, ["samples/count", "cpu/nanoseconds"]);
    assert_eq!(cpu.mappings[0], "Contoso.Shop.Web 111", "even if no frame is in it");
}

#[test]
fn firefox_files_have_every_key_that_another_writer_gives_them() {
    let mut theirs = BTreeSet::new();
    keys("", &firefox_by_another_writer(), &mut theirs);
    let mut ours = BTreeSet::new();
    keys("", &firefox(&support::small()), &mut ours);
    let missing: Vec<&String> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn firefox_tables_have_columns_of_one_length_and_refer_to_what_there_is() {
    for profile in profiles() {
        let file = firefox(&profile);
        assert_eq!(
            file["meta"]["preprocessedProfileVersion"],
            firefox_by_another_writer()["meta"]["preprocessedProfileVersion"]
        );
        let libs = list(&file["libs"]).len();
        let categories = list(&file["meta"]["categories"]).len();
        for thread in list(&file["threads"]) {
            for table in
                ["frameTable", "funcTable", "markers", "nativeSymbols", "resourceTable", "samples", "stackTable"]
            {
                let length = thread[table]["length"].as_u64().expect("a length") as usize;
                let columns = thread[table].as_object().expect("a table");
                for (name, column) in columns.iter().filter(|(_, column)| column.is_array()) {
                    assert_eq!(list(column).len(), length, "{table}.{name}");
                }
            }
            let strings = list(&thread["stringArray"]).len();
            let length = |table: &str| thread[table]["length"].as_u64().expect("a length") as usize;
            below(&thread["samples"]["stack"], length("stackTable"));
            below(&thread["stackTable"]["frame"], length("frameTable"));
            below(&thread["frameTable"]["func"], length("funcTable"));
            below(&thread["frameTable"]["category"], categories);
            below(&thread["funcTable"]["name"], strings);
            below(&thread["funcTable"]["fileName"], strings);
            below(&thread["funcTable"]["resource"], length("resourceTable"));
            below(&thread["resourceTable"]["lib"], libs);
            below(&thread["resourceTable"]["name"], strings);
            for (stack, prefix) in list(&thread["stackTable"]["prefix"]).iter().enumerate() {
                assert!(prefix.as_u64().is_none_or(|prefix| (prefix as usize) < stack), "callers stand first");
            }
            assert!(list(&thread["samples"]["timeDeltas"]).iter().all(|delta| delta.as_f64() >= Some(0.0)));
        }
    }
}

#[test]
fn firefox_knows_blocked_threads_by_their_processor_time() {
    let file = firefox(&support::small());
    let main = &file["threads"][0];
    assert_eq!((&main["name"], &main["isMainThread"], &main["tid"]), (&"Main".into(), &true.into(), &4321.into()));
    assert_eq!(main["samples"]["threadCPUDelta"], serde_json::json!([30_000, 30_000, 20_000, 10_000, 0]));
    assert_eq!(main["samples"]["weight"][0], 30.0004);
    assert_eq!(main["samples"]["timeDeltas"], serde_json::json!([10.0, 10.0, 10.0, 10.0, 10.0]));
    assert_eq!(main["frameTable"]["line"][1], 42);
}

/// All entries of a column that are neither null nor -1 are less than `limit`.
fn below(column: &Value, limit: usize) {
    let fits = |entry: &Value| entry.as_i64().is_none_or(|index| index == -1 || (0..limit as i64).contains(&index));
    assert!(list(column).iter().all(fits), "{column} has an entry of {limit} or more");
}

/// The paths of all objects' keys; array entries have the path of their array.
fn keys(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let path = format!("{path}.{key}");
                keys(&path, value, found);
                found.insert(path);
            }
        }
        Value::Array(entries) => entries.iter().for_each(|entry| keys(path, entry, found)),
        _ => {}
    }
}

/// The smallest profile with a sample, as samply's crate writes it.
fn firefox_by_another_writer() -> Value {
    let start = fxprof::Timestamp::from_nanos_since_reference(0);
    let reference = fxprof::ReferenceTimestamp::from_millis_since_unix_epoch(1.0);
    let mut profile = fxprof::Profile::new("any", reference, fxprof::SamplingInterval::from_millis(1));
    let process = profile.add_process("any", 1, start);
    let thread = profile.add_thread(process, 1, start, true);
    let category = profile.add_category("Managed", fxprof::CategoryColor::Orange);
    let name = profile.intern_string("main");
    let frame = fxprof::Frame::Label(name);
    let info = fxprof::FrameInfo { frame, category_pair: category.into(), flags: fxprof::FrameFlags::empty() };
    let frame = profile.intern_frame(thread, info);
    let stack = profile.intern_stack(thread, None, frame);
    profile.add_sample(thread, start, Some(stack), fxprof::CpuDelta::from_millis(1.0), 1);
    serde_json::to_value(&profile).expect("JSON")
}

#[test]
fn html_is_as_expected() {
    golden("small.html.json", &pretty(&page_data(&support::small())));
}

#[test]
fn folded_is_as_expected() {
    golden("small.folded", &written_text(&support::small(), Format::Folded));
}

#[test]
fn speedscope_is_as_expected() {
    golden("small.speedscope.json", &pretty(&speedscope(&support::small())));
}

#[test]
fn pprof_is_as_expected() {
    let read = pprof_reader::read(&unpacked(&support::small(), Format::Pprof));
    golden("small.pprof.txt", &format!("{read:#?}\n"));
}

#[test]
fn firefox_is_as_expected() {
    golden("small.firefox.json", &pretty(&firefox(&support::small())));
}

/// JSON with a line for each column, so that a change is seen.
fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file; UPDATE_GOLDEN=1 makes it");
    assert!(text == expected, "{name} differs; if that is meant, UPDATE_GOLDEN=1 writes it anew:\n{text}");
}
