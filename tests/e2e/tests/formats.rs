//! Every format, exported from live recordings and parsed by independent readers: all must have the same content.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::read_back::{BLOCKED, ReadBack, array, converted, number, read_json, report};
use remora_e2e::{Facts, Finished, Recording, Remora, Runtime, Target, on_every_runtime, remora};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Stacks, outermost first, with a mark on waiting ones, and their weight in nanoseconds.
type Stacks = BTreeMap<Vec<String>, u64>;

/// The extensions of `-o`.
const ENDINGS: [&str; 6] = ["remora", "html", "folded", "speedscope.json", "pb.gz", "firefox.json.gz"];

/// Exit codes of `remora`, from docs/reference/exit-codes.md.
const USAGE: i32 = 2;
const OUTPUT_REFUSED: i32 = 20;

#[test]
fn every_format_made_of_one_recording_tells_the_same() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "threads", &["6", "1"]);
        let recorded = Recording::start(&target, &["--event", "wall", "--duration", "1s"]).finish();
        recorded.is_clean();
        let file = recorded.output();
        let truth = sums_of(&ReadBack::of(&recorded));
        let all = number(&report(&file)["weight_nanoseconds"]);
        assert_eq!(truth.values().sum::<u64>(), all);
        assert!(truth.keys().any(|stack| stack.contains(&"Threads.BeBusy()".to_owned())), "{truth:#?}");
        assert!(truth.keys().any(|stack| stack.last().is_some_and(|leaf| leaf == BLOCKED)), "{truth:#?}");

        let pprof = Pprof::read(&converted(&file, "a.pb.gz"));
        assert_eq!(pprof.stacks(), truth);
        assert_eq!(pprof.samples(), recorded.samples());
        assert!(pprof.texts.iter().any(|text| text == "nanoseconds") && pprof.texts.iter().any(|text| text == "wall"));

        // Whole microseconds; each line carries its rounding error to the next.
        let folded = folded(&converted(&file, "a.folded"));
        assert!(folded.values().sum::<u64>().abs_diff(all) <= 1000, "{folded:#?}");
        for (stack, weight) in &folded {
            let lines = truth.keys().filter(|other| *other == stack).count() as u64;
            let known = truth.get(stack).copied().unwrap_or_else(|| panic!("no such stack: {stack:?}"));
            assert!(weight.abs_diff(known) <= 20_000 * lines, "{stack:?}: {weight}, not {known}");
        }

        let firefox = firefox(&read_packed_json(&converted(&file, "a.firefox.json.gz")));
        assert_eq!(
            firefox.keys().collect::<Vec<_>>(),
            truth
                .keys()
                .map(|stack| without_mark(stack))
                .collect::<std::collections::BTreeSet<_>>()
                .iter()
                .collect::<Vec<_>>()
        );
        let total: f64 = firefox.values().sum();
        assert!((total - all as f64 / 1e6).abs() < 0.01, "{total} ms, not {all} ns");

        let page = std::fs::read_to_string(converted(&file, "a.html")).unwrap();
        is_whole_page(&page);
        assert!(page.contains("Threads.BeBusy()") && page.contains("Threads.WaitForTheGate()"));
        goes_on(&mut target);
    });
}

#[test]
fn record_writes_each_format_itself_and_nothing_else() {
    let target = Target::start(&Runtime::newest(), "busy", &["1"]);
    for ending in ENDINGS {
        let folder = remora_e2e::folder();
        let output = folder.path().join(format!("direct.{ending}"));
        record_into(&target, &output, &[]).succeeded();
        let there: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert_eq!(there, std::slice::from_ref(&output), "the spool is gone, and nothing half-written is left");
        let weight = match ending {
            "remora" => number(&report(&output)["weight_nanoseconds"]),
            "html" => {
                let page = std::fs::read_to_string(&output).unwrap();
                is_whole_page(&page);
                u64::from(page.contains("Busy.Inner(uint)"))
            }
            "folded" => folded(&output).values().sum(),
            "speedscope.json" => ReadBack::from_speedscope(&read_json(&output)).weight_in("Busy.Inner(uint)"),
            "pb.gz" => Pprof::read(&output).stacks().values().sum(),
            _ => firefox(&read_packed_json(&output)).values().sum::<f64>() as u64,
        };
        assert!(weight > 0, "{ending} is empty");
    }
}

#[test]
fn standard_output_takes_the_recording_and_the_result_goes_elsewhere() {
    let target = Target::start(&Runtime::newest(), "busy", &["1"]);
    let folder = remora_e2e::folder();
    let direct = record_into(&target, Path::new("-"), &["--format", "folded"]).succeeded();
    let lines = folded_lines(&direct.text());
    assert!(lines.keys().any(|stack| stack.contains(&"Busy.Inner(uint)".to_owned())), "{direct}");
    assert!(direct.stderr.contains("Receipt: clean"), "the result is told on standard error: {direct}");

    let file = folder.path().join("a.remora");
    record_into(&target, &file, &[]).succeeded();
    for ending in &ENDINGS[1..] {
        let arguments =
            ["convert".as_ref(), file.as_os_str(), "-o".as_ref(), "-".as_ref(), "--format".as_ref(), ending.as_ref()];
        let piped = remora(arguments.into_iter().chain(["--expand-runtime".as_ref()])).succeeded();
        let written = std::fs::read(converted(&file, &format!("b.{ending}"))).unwrap();
        assert!(piped.stdout == written, "{ending}: what is piped differs from what is written");
    }
    remora(["convert".as_ref(), file.as_os_str(), "-o".as_ref(), "-".as_ref()]).failed_with(USAGE, &["--format"]);
}

#[test]
fn an_existing_file_is_refused_before_the_target_is_asked_anything() {
    let mut target = Target::start(&Runtime::newest(), "busy", &["1"]);
    let before = Facts::of(target.pid());
    let folder = remora_e2e::folder();
    let kept = folder.path().join("kept.folded");
    std::fs::write(&kept, "mine").unwrap();
    record_into(&target, &kept, &[]).failed_with(OUTPUT_REFUSED, &["exists and is not overwritten", "--force"]);
    let other = folder.path().join("other.folded");
    record_into(&target, &other, &["--receipt", &kept.to_string_lossy()]).failed_with(OUTPUT_REFUSED, &["--force"]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "mine");
    assert!(!other.exists(), "nothing was recorded");
    // The runtime's detach thread, which any attach leaves, does not exist: there was no attach.
    assert_eq!(Facts::of(target.pid()).threads.len(), before.threads.len());

    record_into(&target, &kept, &["--force"]).succeeded();
    assert!(!folded(&kept).is_empty());
    let recording = folder.path().join("a.remora");
    record_into(&target, &recording, &[]).succeeded();
    let convert = |more: &[&str]| {
        let mut arguments =
            vec!["convert".into(), recording.clone().into_os_string(), "-o".into(), kept.clone().into_os_string()];
        arguments.extend(more.iter().map(Into::into));
        remora(arguments)
    };
    let text = std::fs::read_to_string(&kept).unwrap();
    convert(&[]).failed_with(OUTPUT_REFUSED, &["exists", "--force"]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), text);
    convert(&["--force"]).succeeded();
    assert_ne!(std::fs::read_to_string(&kept).unwrap(), text);
    goes_on(&mut target);
}

#[test]
fn an_unknown_format_is_refused_with_the_known_ones_before_the_target_is_asked_anything() {
    let target = Target::start(&Runtime::newest(), "busy", &["1"]);
    let before = Facts::of(target.pid());
    let folder = remora_e2e::folder();
    let svg = folder.path().join("a.svg");
    let html = folder.path().join("a.html");
    for (output, more, words) in [
        (&svg, &[][..], &["unknown format", "html", "folded", "speedscope", ".pb.gz"][..]),
        (&html, &["--format", "svg"], &["unknown format", "pprof"]),
        (&PathBuf::from("-"), &[], &["standard output", "--format"]),
    ] {
        let refused = record_into(&target, output, more).failed_with(USAGE, words);
        assert_eq!(refused.stderr.trim_end().lines().count(), 1, "one line: {refused}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(Facts::of(target.pid()).threads.len(), before.threads.len());
}

#[test]
fn without_a_name_the_file_is_called_after_the_application_and_the_time() {
    let target = Target::start(&Runtime::newest(), "busy", &["1"]);
    let folder = remora_e2e::folder();
    let mut command = Remora::command();
    command.current_dir(folder.path()).args(["record", "-d", "300ms", "-p"]).arg(target.pid_argument());
    let finished = Remora::spawn(command).finish().succeeded();
    let names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let [name] = &names[..] else { panic!("not one file: {names:?}") };
    let shape: String = name.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect();
    assert_eq!(shape, "busy_99999999_999999.html");
    assert!(finished.text().contains(name.as_str()), "it is told: {finished}");
}

fn record_into(target: &Target, output: &Path, more: &[&str]) -> Finished {
    let mut command = Remora::command();
    command.args(["record", "-d", "400ms", "-p"]).arg(target.pid_argument()).arg("-o").arg(output).args(more);
    Remora::spawn(command).finish()
}

fn goes_on(target: &mut Target) {
    let first = target.ask_number("count");
    while target.ask_number("count") == first {}
}

fn sums_of(read: &ReadBack) -> Stacks {
    let mut sums = Stacks::new();
    for stack in &read.stacks {
        *sums.entry(read.names(stack).into_iter().map(str::to_owned).collect()).or_default() += stack.weight;
    }
    sums
}

fn without_mark(stack: &[String]) -> Vec<String> {
    stack.iter().filter(|name| *name != BLOCKED).cloned().collect()
}

/// A page without external resources.
#[track_caller]
fn is_whole_page(page: &str) {
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"), "{:.200}", page);
    for loads in
        ["src=\"", "href=\"http", "href=\"/", "rel=\"stylesheet\"", "@import", "url(http", "fetch(", "XMLHttpRequest"]
    {
        assert!(!page.contains(loads), "{loads} would load something");
    }
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"profile\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: Result<Value, _> = serde_json::from_str(data);
    assert!(data.is_ok(), "{data:?}");
}

fn folded(path: &Path) -> Stacks {
    folded_lines(&std::fs::read_to_string(path).unwrap())
}

/// Lines of `thread;outermost;...;leaf microseconds`; without the thread, in nanoseconds.
#[track_caller]
fn folded_lines(text: &str) -> Stacks {
    let mut sums = Stacks::new();
    for line in text.lines().filter(|line| !line.starts_with("[lost];")) {
        let (stack, weight) = line.rsplit_once(' ').unwrap_or_else(|| panic!("not a line of folded stacks: {line}"));
        let weight: u64 = weight.parse().unwrap_or_else(|_| panic!("no weight: {line}"));
        let mut names = stack.split(';').map(str::to_owned);
        assert!(names.next().is_some_and(|thread| thread.ends_with(')')), "no thread: {line}");
        *sums.entry(names.collect()).or_default() += weight * 1000;
    }
    sums
}

/// The Firefox Profiler's stacks with milliseconds: each thread has tables that refer to each other.
fn firefox(file: &Value) -> BTreeMap<Vec<String>, f64> {
    let mut sums: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    for thread in array(&file["threads"]) {
        let at = |table: &str, column: &str, row: u64| thread[table][column][row as usize].clone();
        let texts = array(&thread["stringArray"]);
        let name = |stack: u64| {
            let function = number(&at("frameTable", "func", number(&at("stackTable", "frame", stack))));
            texts[number(&at("funcTable", "name", function)) as usize].as_str().unwrap_or_default().to_owned()
        };
        let samples = array(&thread["samples"]["stack"]);
        let weights = array(&thread["samples"]["weight"]);
        assert_eq!(samples.len(), weights.len());
        for (stack, weight) in samples.iter().zip(weights) {
            let mut names = Vec::new();
            let mut next = stack.as_u64();
            while let Some(stack) = next {
                names.push(name(stack));
                next = at("stackTable", "prefix", stack).as_u64();
            }
            names.reverse();
            names.retain(|name| name != BLOCKED);
            *sums.entry(names).or_default() += weight.as_f64().unwrap();
        }
    }
    sums
}

/// The content of a `.gz`, by the system's own tool.
#[track_caller]
fn unpacked(path: &Path) -> Vec<u8> {
    let output = Command::new("gzip").arg("-dc").arg(path).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{} is not what gzip reads", path.display());
    output.stdout
}

fn read_packed_json(path: &Path) -> Value {
    serde_json::from_slice(&unpacked(path)).unwrap()
}

/// The parts of pprof's `profile.proto` that are needed to add up samples by frame names.
#[derive(Default)]
struct Pprof {
    texts: Vec<String>,
    functions: BTreeMap<u64, u64>,
    /// The functions at each location, innermost first.
    locations: BTreeMap<u64, Vec<u64>>,
    raw: Vec<Raw>,
}

/// A sample.
struct Raw {
    /// Leaf first.
    locations: Vec<u64>,
    values: Vec<u64>,
    /// Pairs of texts.
    labels: Vec<(u64, u64)>,
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Pprof {
    fn read(path: &Path) -> Pprof {
        let bytes = unpacked(path);
        let mut pprof = Pprof::default();
        for (field, value) in fields(&bytes) {
            match (field, value) {
                (2, Field::Bytes(sample)) => pprof.sample(sample),
                (4, Field::Bytes(location)) => pprof.location(location),
                (5, Field::Bytes(function)) => {
                    let all = fields(function);
                    pprof.functions.insert(first(&all, 1), first(&all, 2));
                }
                (6, Field::Bytes(text)) => pprof.texts.push(String::from_utf8(text.to_vec()).unwrap()),
                _ => {}
            }
        }
        assert_eq!(pprof.texts.first().map(String::as_str), Some(""), "the first text is empty by definition");
        pprof
    }

    fn sample(&mut self, bytes: &[u8]) {
        let all = fields(bytes);
        let labels = all.iter().filter_map(|(field, value)| match (field, value) {
            (3, Field::Bytes(label)) => {
                let label = fields(label);
                Some((first(&label, 1), first(&label, 2)))
            }
            _ => None,
        });
        let labels = labels.collect();
        self.raw.push(Raw { locations: numbers(&all, 1), values: numbers(&all, 2), labels });
    }

    fn location(&mut self, bytes: &[u8]) {
        let all = fields(bytes);
        let lines = all.iter().filter_map(|(field, value)| match (field, value) {
            (4, Field::Bytes(line)) => Some(first(&fields(line), 1)),
            _ => None,
        });
        self.locations.insert(first(&all, 1), lines.collect());
    }

    fn text(&self, index: u64) -> &str {
        &self.texts[index as usize]
    }

    fn stacks(&self) -> Stacks {
        let mut sums = Stacks::new();
        for Raw { locations, values, labels } in &self.raw {
            let functions = locations.iter().rev().flat_map(|location| self.locations[location].iter().rev());
            let mut names: Vec<String> =
                functions.map(|function| self.text(self.functions[function]).to_owned()).collect();
            if labels.iter().any(|(key, value)| self.text(*key) == "state" && self.text(*value) == "blocked") {
                names.push(BLOCKED.to_owned());
            }
            *sums.entry(names).or_default() += values[1];
        }
        sums
    }

    fn samples(&self) -> u64 {
        self.raw.iter().map(|raw| raw.values[0]).sum()
    }
}

/// The fields of a message, in their order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (field, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(field)
            }
            kind => panic!("profile.proto has no fields of wire type {kind}"),
        };
        all.push((tag >> 3, value));
    }
    all
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a number ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number has ten bytes at most");
}

fn first(all: &[(u64, Field)], wanted: u64) -> u64 {
    numbers(all, wanted).first().copied().unwrap_or(0)
}

/// The numbers of a repeated field, packed or not.
fn numbers(all: &[(u64, Field)], wanted: u64) -> Vec<u64> {
    let mut found = Vec::new();
    for (_, value) in all.iter().filter(|(field, _)| *field == wanted) {
        match value {
            Field::Number(number) => found.push(*number),
            Field::Bytes(packed) => {
                let mut rest = *packed;
                while !rest.is_empty() {
                    found.push(varint(&mut rest));
                }
            }
        }
    }
    found
}
