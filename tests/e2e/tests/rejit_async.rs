//! `remora trace -p` of asynchronous methods: all steps of a call are one call. The program counts its own calls, and both counts are equal.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Remora, Runtime, Start, Target, on_runtimes_at_once};
use remora_holds::holds;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::HashMap;
use std::process::Command;

/// How the program is compiled: the state machines of a release are structures, those for debugging are classes.
#[derive(Debug, Clone, Copy)]
enum Build {
    Release,
    Debug,
    /// Its references to the core library have another name, as those of a library for .NET Standard.
    ForStandard,
}

impl Build {
    /// The name of the assembly, and its bytes.
    fn assembly(self) -> (&'static str, Vec<u8>) {
        let release = Target::assembly("awaits");
        match self {
            Build::Release => ("awaits.dll", std::fs::read(release).unwrap()),
            Build::Debug => ("awaits.debug.dll", std::fs::read(release.with_extension("debug.dll")).unwrap()),
            Build::ForStandard => ("awaits.dll", for_net_standard(std::fs::read(release).unwrap())),
        }
    }
}

/// What the program calls its cases, and the methods that they are.
const CASES: [(&str, &str); 18] = [
    ("later", "Awaits.Cases.Later"),
    ("nothing", "Awaits.Cases.Nothing"),
    ("at_once", "Awaits.Cases.AtOnce"),
    ("at_once_nothing", "Awaits.Cases.AtOnceNothing"),
    ("throws_at_once", "Awaits.Cases.ThrowsAtOnce"),
    ("throws_later", "Awaits.Cases.ThrowsLater"),
    ("cancelled", "Awaits.Cases.Cancelled"),
    ("handles", "Awaits.Cases.Handles"),
    ("value", "Awaits.Cases.Value"),
    ("value_of", "Awaits.Cases.ValueOf"),
    ("same", "Awaits.Cases.Same"),
    ("same_value", "Awaits.Cases.SameValue"),
    ("recursive", "Awaits.Cases.Recursive"),
    ("many", "Awaits.Cases.Many"),
    ("holder", "Awaits.Holder.Get"),
    ("take", "Awaits.Holder.Take"),
    ("place", "Awaits.Place.Get"),
    ("stream", "Awaits.Cases.Stream"),
];

fn for_net_standard(mut assembly: Vec<u8>) -> Vec<u8> {
    /// The token of the key of System.Private.CoreLib.
    const CORE_KEY: u64 = 0x7CEC_85D7_BEA7_798E;
    // The row of the reference: its version, no flags, the place of its key in the heap of blobs. ECMA-335 II.22.5 and II.24.2.
    let heap = find(&assembly, b"#Blob\0");
    let start = u32::from_le_bytes(assembly[heap - 8..heap - 4].try_into().unwrap()) as usize;
    let key = find(&assembly, &CORE_KEY.to_be_bytes()) - find(&assembly, b"BSJB") - start - 1;
    let row = |version: [u16; 4]| {
        let version = version.into_iter().flat_map(u16::to_le_bytes);
        version.chain([0; 4]).chain((key as u16).to_le_bytes()).collect::<Vec<u8>>()
    };
    for (old, new) in [
        (row([4, 0, 0, 0]), row([2, 1, 0, 0])),
        (b"System.Private.CoreLib\0".to_vec(), b"netstandard\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
        (CORE_KEY.to_be_bytes().to_vec(), 0xCC7B_13FF_CD2D_DD51_u64.to_be_bytes().to_vec()),
    ] {
        let at = find(&assembly, &old);
        assembly[at..at + old.len()].copy_from_slice(&new);
    }
    assembly
}

fn find(assembly: &[u8], bytes: &[u8]) -> usize {
    assembly.windows(bytes.len()).position(|window| window == bytes).expect("it is there")
}

struct Program {
    target: Target,
    _folder: tempfile::TempDir,
}

impl Program {
    fn start(runtime: &Runtime, build: Build) -> Program {
        let folder = remora_e2e::folder();
        let (name, assembly) = build.assembly();
        let file = folder.path().join(name);
        std::fs::write(&file, assembly).unwrap();
        let framework = serde_json::json!({ "name": "Microsoft.NETCore.App", "version": runtime.version_text() });
        let properties = serde_json::json!({ "System.Globalization.Invariant": true });
        let options = serde_json::json!({ "framework": framework, "configProperties": properties });
        let settings = serde_json::json!({ "runtimeOptions": options });
        std::fs::write(file.with_extension("runtimeconfig.json"), settings.to_string()).unwrap();
        let mut command = Command::new(runtime.launcher());
        command.arg(&file);
        let target = Start::of(command, &format!("awaits ({build:?}) on {}", runtime.name())).ready();
        Program { target, _folder: folder }
    }

    fn traced(&self, arguments: &[&str]) -> Remora {
        let pid = self.target.pid().to_string();
        let fixed = ["trace", "-p", &pid, "--json", "--yes"];
        let mut trace = Remora::start(fixed.iter().chain(arguments));
        trace.wait_until_it_says("tracing ");
        trace
    }

    fn own_counts(&mut self) -> HashMap<String, u64> {
        let answer = self.target.ask("counts");
        let pairs = answer.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
    }
}

fn ended(trace: Remora) -> Value {
    trace.signal(Signal::INT);
    trace.finish().succeeded().json()
}

/// The only row of a method, without one of its steps.
fn row<'a>(result: &'a Value, method: &str) -> &'a Value {
    let all = result["methods"].as_array().unwrap().iter();
    let rows: Vec<_> = all.filter(|row| row["method"] == method && row["is_steps"] == false).collect();
    assert_eq!(rows.len(), 1, "{method}: {rows:?}");
    rows[0]
}

fn number(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("no {field}: {row}"))
}

#[test]
fn rjt_01_the_steps_of_an_asynchronous_call_are_one_call() {
    on_runtimes_at_once(&Runtime::all(), |runtime| {
        for build in [Build::Release, Build::Debug, Build::ForStandard] {
            let mut program = Program::start(runtime, build);
            let trace = program.traced(&["-m", "Awaits.*"]);
            program.own_counts();
            program.target.ask("run 40");
            let own = program.own_counts();
            let result = ended(trace);
            for (case, method) in CASES {
                let row = row(&result, method);
                holds!(RJT_01 clr rem, number(row, "calls") == own[case], "{method}: {row}");
                assert_eq!(number(row, "calls_begun"), own[case], "{method}");
                assert_eq!(row["is_async"], case != "stream", "{method}");
            }
            // An iterator has a row of its steps.
            let all = result["methods"].as_array().unwrap();
            let streamed = all.iter().find(|row| row["method"] == "Awaits.Cases.Stream (steps)");
            assert!(streamed.is_some_and(|row| number(row, "calls") > own["stream"]), "{streamed:?}");
            let steps = |method| number(row(&result, method), "steps");
            assert_eq!(steps("Awaits.Cases.AtOnce"), own["at_once"]);
            // Each yield is a wait; a task may have ended before it is awaited.
            assert_eq!(steps("Awaits.Cases.Many"), 6 * own["many"]);
            assert_eq!(steps("Awaits.Cases.ValueOf"), own["value_of"] / 2 * 3);
            for (case, method) in [
                ("throws_at_once", "Awaits.Cases.ThrowsAtOnce"),
                ("throws_later", "Awaits.Cases.ThrowsLater"),
                ("cancelled", "Awaits.Cases.Cancelled"),
            ] {
                assert_eq!(number(row(&result, method), "exceptions"), own[case], "{method}");
            }
            assert_eq!(number(row(&result, "Awaits.Cases.Handles"), "exceptions"), 0);
            assert_eq!(number(row(&result, "Awaits.Cases.Later"), "exceptions"), 0);
            assert_eq!((&result["runtime_errors"], &result["calls_without_end"]), (&Value::from(0), &Value::from(0)));
            // The methods are restored.
            program.target.ask("run 2");
            assert_eq!(program.own_counts()["later"], 8);
            assert!(program.target.quit().success());
        }
    });
}

#[test]
fn the_time_of_an_asynchronous_call_is_that_of_the_program() {
    on_runtimes_at_once(&Runtime::all(), |runtime| {
        for build in [Build::Release, Build::Debug] {
            let mut program = Program::start(runtime, build);
            let trace = program.traced(&["-m", "Awaits.Cases.Timed", "-m", "Awaits.Cases.Inner"]);
            program.target.ask("timed 50");
            let own = program.target.ask_number("times");
            program.target.ask("inner 3");
            let result = ended(trace);
            let timed = row(&result, "Awaits.Cases.Timed");
            let total = number(timed, "total_nanoseconds");
            // The clock of the program runs inside of the call.
            assert!(own <= total && total <= own + own / 5, "{own} {timed}");
            let running = number(timed, "running_nanoseconds");
            assert!(50 * 5_000_000 <= running && running < total, "{timed}");
            assert_eq!(number(timed, "calls"), 50);
            // What awaits a call goes on inside of the call that completes it, and takes 300 ms here.
            let inner = row(&result, "Awaits.Cases.Inner");
            assert!(number(inner, "shortest_nanoseconds") < 300_000_000, "{inner}");
            assert!(number(inner, "running_nanoseconds") < 3 * 300_000_000, "{inner}");
            assert!(program.target.quit().success());
        }
    });
}

#[test]
fn a_record_of_an_asynchronous_call_has_arguments_result_and_callers() {
    on_runtimes_at_once(&Runtime::all(), |runtime| {
        for build in [Build::Release, Build::Debug] {
            let mut program = Program::start(runtime, build);
            let patterns = [
                "Awaits.Cases.Price",
                "Awaits.Cases.Day",
                "Awaits.Cases.Values",
                "Awaits.Cases.Named",
                "Awaits.Holder.Take",
                "Awaits.Cases.Throws*",
            ];
            let flags: Vec<&str> = patterns.iter().flat_map(|pattern| ["-m", pattern]).chain(["--arguments"]).collect();
            let trace = program.traced(&flags);
            program.target.ask("values");
            let waited = program.target.ask_number("waited");
            assert_eq!(program.target.ask("named"), "17");
            assert_eq!(program.target.ask("results"), "12.50Friday");
            program.target.ask("run 1");
            let result = ended(trace);
            let calls = result["calls"].as_array().unwrap();
            let of = |name: &str| calls.iter().find(|call| call["method"] == format!("Awaits.Cases.{name}")).unwrap();
            let values = of("Values");
            let arguments = values["arguments"].as_array().unwrap();
            let names: Vec<&str> = arguments.iter().map(|argument| argument["name"].as_str().unwrap()).collect();
            // The last one changes during the call, so nobody knows what it was.
            assert_eq!(names, ["number", "text", "ratio", "flag", "mood", "day", "price"], "{values}");
            let all: Vec<&Value> = arguments.iter().map(|argument| &argument["value"]).collect();
            assert_eq!(
                all,
                [&Value::from(20), &"text".into(), &0.5.into(), &true.into(), &7.into(), &5.into(), &"12.50".into()]
            );
            let constants: Vec<&Value> = arguments[4..6].iter().map(|argument| &argument["enum"]).collect();
            assert_eq!(constants, ["Angry", "Friday"], "{values}");
            assert_eq!(values["result"], "text0.5Angry6");
            // The clock of the program runs inside of the call.
            assert!(waited > 0 && number(values, "duration_nanoseconds") >= waited, "{waited} {values}");
            assert_eq!(values["callers"][0], "Awaits.Program.Answer", "{values}");
            let (price, day) = (of("Price"), of("Day"));
            assert_eq!(
                (&price["arguments"][0]["value"], &price["result"]),
                (&"6.25".into(), &"12.50".into()),
                "{price}"
            );
            assert_eq!((&day["result"], &day["result_enum"]), (&5.into(), &"Friday".into()), "{day}");
            // Another class has fields with the names of these parameters.
            let of_named = |name: &str| {
                let arguments = of("Named")["arguments"].as_array().unwrap();
                arguments.iter().find(|argument| argument["name"] == name).map(|argument| argument["value"].clone())
            };
            assert_eq!((of_named("customer"), of_named("text")), (Some(12.into()), Some("name".into())));
            let take = calls.iter().find(|call| call["method"] == "Awaits.Holder.Take").unwrap();
            assert_eq!(
                (&take["arguments"][0]["name"], &take["arguments"][0]["value"]),
                (&"isLater".into(), &true.into())
            );
            assert_eq!((&of("ThrowsAtOnce")["exception"], &values["exception"]), (&true.into(), &false.into()));
            assert_eq!(of("ThrowsLater")["arguments"][0]["name"], "text");
            assert!(of("ThrowsLater").get("result").is_none(), "{}", of("ThrowsLater"));
            assert!(program.target.quit().success());
        }
    });
}

#[test]
fn calls_that_begin_before_a_trace_or_end_after_it_are_not_counted_as_ended() {
    on_runtimes_at_once(&Runtime::all(), |runtime| {
        let mut program = Program::start(runtime, Build::Release);
        program.target.ask("hold 30");
        let trace = program.traced(&["-m", "Awaits.Cases.Held"]);
        program.target.ask("hold 50");
        program.target.ask("release");
        program.target.ask("hold 7");
        let result = ended(trace);
        let held = row(&result, "Awaits.Cases.Held");
        assert_eq!((number(held, "calls_begun"), number(held, "calls")), (57, 50), "{held}");
        program.target.ask("release");
        assert!(program.target.quit().success());
    });
}

#[test]
fn more_calls_wait_than_a_trace_can_follow_and_the_rest_is_counted() {
    on_runtimes_at_once(&Runtime::all(), |runtime| {
        const CALLS: u64 = 100_000;
        let mut program = Program::start(runtime, Build::Release);
        let trace = program.traced(&["-m", "Awaits.Cases.Held"]);
        program.target.ask(&format!("hold {CALLS}"));
        program.target.ask("release");
        program.target.ask("hold 50");
        program.target.ask("release");
        let result = ended(trace);
        let held = row(&result, "Awaits.Cases.Held");
        let (ended, lost) = (number(held, "calls"), number(&result, "calls_without_end"));
        assert_eq!(number(held, "calls_begun"), CALLS + 50);
        assert!(ended > 50_000 && lost > 0 && ended + lost >= CALLS + 50, "{ended} {lost}");
        assert!(program.target.quit().success());
    });
}
