//! Which modules a profiler of the SDK knows, attached to a program that loads and unloads them all the time. The kernel's list of mapped
//! assemblies says which there are.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Facts, Start, TIMEOUT, Target, diagnostics, folder, on_every_runtime, sdk_example, until};
use remora_holds::holds;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;

/// `{636F7270-726F-6600-6D6F-64756C650001}`, the class of the module logger.
const CLASS: [u8; 16] = *b"procor\0fmodule\0\x01";
/// Attaches to one process, one after another.
const ATTACHES: usize = 5;
/// Unloads that each of them sees.
const UNLOADS: usize = 10;

#[test]
fn cat_02_cat_03_cat_05_cat_06_cat_07_the_sdk_knows_every_module_once_and_none_that_has_gone() {
    on_every_runtime(|runtime| {
        let mut target = Start::managed(runtime, "collectible").ready();
        for _ in 0..ATTACHES {
            let lines = logged(&target);
            let mut known: BTreeMap<&str, bool> = BTreeMap::new();
            let mut found = BTreeSet::new();
            for line in &lines {
                let mut words = line.splitn(3, ' ');
                let (what, id, path) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
                let before = known.insert(id, what != "unloading");
                match what {
                    // Neither known already, nor from an enumeration that is older than its unload.
                    "found" => holds!([CAT_03 CAT_07] rem, before.is_none(), "{line} in {lines:#?}"),
                    "loaded" => holds!(CAT_06 rem, before != Some(true), "{line} in {lines:#?}"),
                    _ => assert_eq!(what, "unloading", "{line}"),
                }
                found.extend((what != "unloading").then(|| path.to_owned()));
            }
            let mapped = mapped_assemblies(&target);
            holds!([CAT_02 CAT_05] rem, !mapped.is_empty() && mapped.is_subset(&found), "{mapped:#?} {found:#?}");
        }
        let unloaded = target.ask_number("unloaded");
        until("it comes and goes as before", || target.ask_number("unloaded") > unloaded);
        assert!(target.quit().success());
    });
}

#[test]
fn att_10_an_sdk_profiler_that_refuses_its_attach_is_gone_and_its_code_reaches_the_trigger() {
    const FAIL: u32 = 0x8000_4005;
    on_every_runtime(|runtime| {
        let mut target = Start::managed(runtime, "obedient").ready();
        let library = sdk_example("module_logger").to_string_lossy().into_owned();
        for _ in 0..2 {
            // Nobody listens there.
            let refused = diagnostics::attach_profiler(target.pid(), &CLASS, &library, b"/nowhere/s");
            holds!(ATT_10 rem, refused == Err(FAIL));
            until("the example is unmapped", || !Facts::of(target.pid()).maps.iter().any(|map| map.name == library));
        }
        assert_eq!(target.ask("a load"), "obedient");
        assert!(target.quit().success());
    });
}

/// Attaches the logger until it has seen some unloads. Returns its lines about modules.
fn logged(target: &Target) -> Vec<String> {
    let folder = folder();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let library = sdk_example("module_logger").to_string_lossy().into_owned();
    let data = path.to_string_lossy().into_owned();
    let answer = diagnostics::attach_profiler(target.pid(), &CLASS, &library, data.as_bytes());
    // A runtime refuses an object that does not answer for ICorProfilerCallback3: the tests of ATT-09 show it.
    holds!(ATT_09 rem, answer == Ok(()));
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (mut lines, mut unloads, mut caught_up) = (Vec::new(), 0, false);
    for line in BufReader::new(&stream).lines().map(Result::unwrap) {
        if line.starts_with("detached, ") {
            assert_eq!(line, "detached, 0 lines lost");
            break;
        }
        if line.starts_with("caught up") {
            caught_up = line.ends_with("Ok(())");
            continue;
        }
        unloads += usize::from(line.starts_with("unloading"));
        if caught_up && unloads == UNLOADS {
            let _ = stream.shutdown(Shutdown::Write);
        }
        lines.push(line);
    }
    until("the example is unmapped", || !Facts::of(target.pid()).maps.iter().any(|map| map.name == library));
    lines
}

/// The assemblies that the kernel shows.
fn mapped_assemblies(target: &Target) -> BTreeSet<String> {
    let maps = Facts::of(target.pid()).maps;
    maps.iter().map(|map| map.name.clone()).filter(|name| name.ends_with(".dll")).collect()
}
